"""Tells the media type of a stored object by its path, or by the name of a file (pure).

What lies by its content has no name in its path: values are JSON, and of a file whoever asks says the name.
"""

from __future__ import annotations

import mimetypes

from pipeweave.storage.base import BINARY

JSON = "application/json"
# Python's own table alone: those of hosts differ.
_TYPES = mimetypes.MimeTypes(filenames=())
_LINES = ".jsonl"


def is_json(path: str, name: str | None = None) -> bool:
    """Whether an object is JSON, by its name or its path: values are."""
    return (name or path).endswith(".json") or (name is None and path.startswith("artifacts/"))


def media_type(path: str, name: str | None = None) -> str:
    """The media type of an object, such as `text/csv`.

    Args:
        name: of the file, which tells it instead of the path.
    """
    if is_json(path, name):
        return JSON
    if (name or path).endswith(_LINES):
        return "application/x-ndjson"
    return _TYPES.guess_type(name or path.rpartition("/")[2])[0] or BINARY
