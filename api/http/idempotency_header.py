"""Reads the Idempotency-Key header, which stands for the body field `runToken` or `idempotencyKey`.

For a batch, the header gives every entry without a key of its own one: the header's key and the entry's
index, `key[0]`, `key[1]` and so on.
"""

from __future__ import annotations

import re

from werkzeug.datastructures import Headers

from pipeweave.errors import FieldError, InvalidInput

HEADER = "Idempotency-Key"


def pattern(longest: int) -> str:
    """The pattern of the header: 1 to `longest` characters of printable ASCII, no blank at either end."""
    return f"^[!-~]([ -~]{{0,{longest - 2}}}[!-~])?$"


def read(headers: Headers, longest: int) -> str | None:
    """The key of a request, or None. Quotes around the key (RFC 8941, structured fields) are removed.

    Args:
        headers: the headers of the request.
        longest: the longest key in characters.

    Raises:
        InvalidInput: the key is empty, too long, or has characters other than printable ASCII.
    """
    header = headers.get(HEADER)
    if header is None:
        return None
    key = header.strip()
    if len(key) >= 2 and key[0] == key[-1] == '"':
        key = key[1:-1]
    if not re.match(pattern(longest), key):
        expected = f"1 to {longest} characters of printable ASCII"
        raise InvalidInput(
            f"the header {HEADER} is not {expected}",
            errors=[FieldError(HEADER, f"must be {expected}", "invalid_string", expected)],
        )
    return key


def of_body(key: str | None, body_key: str | None, field: str) -> str | None:
    """The key of a request: from the header, or from the field of its body.

    Args:
        key: the key in the header.
        body_key: the key in the body.
        field: the name of the field of the body, for the error.

    Raises:
        InvalidInput: both are given and differ.
    """
    if key is not None and body_key not in (None, key):
        raise InvalidInput(
            f"{field} and the header {HEADER} differ",
            errors=[FieldError(field, f"differs from the header {HEADER}", "conflict")],
            hint="send only one of the two",
        )
    return key if body_key is None else body_key


def of_entry(key: str | None, own_key: str | None, index: int) -> str | None:
    """The key of an entry of a batch: its own key, else the header's key with the entry's index."""
    return f"{key}[{index}]" if own_key is None and key is not None else own_key
