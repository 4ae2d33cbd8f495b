"""The Idempotency-Key header: a key for what a request creates, for clients that give every request one.

It stands for the field of the body that means the same, `runToken` or `idempotencyKey`. With a batch, it
stands for one of each entry: the key with the entry's place behind it.
"""

from __future__ import annotations

import re

from werkzeug.datastructures import Headers

from pipeweave.errors import FieldError, InvalidInput

HEADER = "Idempotency-Key"


def pattern(most: int) -> str:
    """What the header may be: printable ASCII, blanks only inside."""
    return f"^[!-~]([ -~]{{0,{most - 2}}}[!-~])?$"


def read(headers: Headers, most: int) -> str | None:
    """The key of a request; None without one. Quotes around it, as structured fields have them, are not part
    of it.

    Args:
        most: characters it may have.

    Raises:
        InvalidInput: it is empty, too long, or has other characters than those of printable ASCII.
    """
    given = headers.get(HEADER)
    if given is None:
        return None
    key = given.strip()
    if len(key) >= 2 and key[0] == key[-1] == '"':
        key = key[1:-1]
    if not re.match(pattern(most), key):
        expected = f"1 to {most} characters of printable ASCII"
        raise InvalidInput(
            f"the header {HEADER} is not {expected}",
            errors=[FieldError(HEADER, f"must be {expected}", "invalid_string", expected)],
        )
    return key


def of_body(key: str | None, given: str | None, field: str) -> str | None:
    """The key of a request that may also name one in its body.

    Raises:
        InvalidInput: the two differ.
    """
    if key is not None and given not in (None, key):
        raise InvalidInput(
            f"{field} and the header {HEADER} differ",
            errors=[FieldError(field, f"differs from the header {HEADER}", "conflict")],
            hint="send one of them",
        )
    return key if given is None else given


def of_entry(key: str | None, given: str | None, place: int) -> str | None:
    """The key of an entry of a batch: its own, or one made of the request's."""
    return f"{key}[{place}]" if given is None and key is not None else given
