"""Finds the ids of temp uploads in the JSON text of a value."""

from __future__ import annotations

import re
from uuid import UUID

from pipeweave import ids

# Most values have none: a search for these bytes is all that they pay.
_MARK = f'"{ids.UPLOAD}_'.encode()
# A text of its own, in a list or as a member's value. A quotation mark inside of a text stands behind a
# backslash, and a key stands before a colon.
_ID = re.compile(rb'(?<![^\[,:])"(' + ids.UPLOAD.encode() + rb'_[0-7][0-9a-hjkmnp-tv-z]{25})"(?!:)')


def upload_ids_in(content: bytes) -> tuple[UUID, ...]:
    """The ids of uploads among the texts of a value, each once, in order.

    Args:
        content: the value as canonical JSON, without spaces.
    """
    if _MARK not in content:
        return ()
    upload_ids = {ids.read(ids.UPLOAD, each.decode()) for each in _ID.findall(content)}
    return tuple(sorted(upload_ids))
