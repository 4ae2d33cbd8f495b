"""Tells the media type of a stored object by its path (pure)."""

from __future__ import annotations

import mimetypes

from pipeweave.storage.base import BINARY

JSON = "application/json"
# Python's own table alone: those of hosts differ.
_TYPES = mimetypes.MimeTypes(filenames=())
_LINES = ".jsonl"


def is_json(path: str) -> bool:
    """Whether an object is JSON, by its path: values are."""
    return path.startswith("artifacts/") or path.endswith(".json")


def media_type(path: str) -> str:
    """The media type of an object, such as `text/csv`."""
    if is_json(path):
        return JSON
    if path.endswith(_LINES):
        return "application/x-ndjson"
    return _TYPES.guess_type(path.rpartition("/")[2])[0] or BINARY
