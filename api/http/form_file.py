"""Receives the file of a form, which may be too large for memory: the rest of a large one lies on disk
meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from flask import Request

from pipeweave.api.http.slow_bodies import allow_time
from pipeweave.errors import FieldError, InvalidInput, UnsupportedMediaType
from pipeweave.size_limits import MAX_UPLOAD_BYTES
from pipeweave.storage.base import BINARY

FORM = "multipart/form-data"
FIELD = "file"
# What a form may have beside the content of its file (bytes).
_AROUND = 64 * 1024
_MOST_PARTS = 10


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A file as its sender names it. It can be read once, and is gone when the request is over."""

    name: str
    mime_type: str
    content: IO[bytes]


class FormFile:
    """The body of a request that is a form with one file.

    Args:
        request: the request; its body has not been read.
    """

    def __init__(self, request: Request) -> None:
        self._request = request

    @property
    def sender(self) -> str:
        """The address of the client."""
        return self._request.remote_addr or "unknown"

    def receive(self) -> ReceivedFile:
        """Read the body. It may take long: the caller bounds how many do it at a time.

        Raises:
            UnsupportedMediaType: the body is not a form.
            InvalidInput: it is not one file in the field `file`.
            PayloadTooLarge: it is larger than a file may be (werkzeug's 413, translated in errors.py).
            RequestTimeout: it did not arrive in time.
        """
        request = self._request
        if request.mimetype != FORM:
            media_type = request.mimetype or "no content type"
            raise UnsupportedMediaType(
                f"the body is {media_type[:100]}, not {FORM}",
                hint=f"send a form with the file in field {FIELD!r}",
            )
        request.max_content_length = MAX_UPLOAD_BYTES + _AROUND
        request.max_form_parts = _MOST_PARTS
        allow_time(request)
        return self._only_file()

    def _only_file(self) -> ReceivedFile:
        listed = [(name, each) for name, values in self._request.files.lists() for each in values]
        others = [name for name, _ in listed if name != FIELD] + list(self._request.form)
        if others:
            raise _wrong(others[0][:200], "is unknown", "unknown_field")
        if len(listed) != 1 or not listed[0][1].filename:
            what = "is given more than once" if len(listed) > 1 else "is required, with a file name"
            raise _wrong(FIELD, what, "required")
        upload = listed[0][1]
        return ReceivedFile(str(upload.filename), upload.mimetype or BINARY, upload.stream)


def _wrong(field: str, message: str, code: str) -> InvalidInput:
    expected = f"one file in the field {FIELD!r} of a form"
    return InvalidInput(
        f"{field}: {message}",
        errors=[FieldError(field, message, code, expected)],
        hint="curl -F file=@report.csv … sends one",
    )
