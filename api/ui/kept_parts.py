"""Keeps parts of pages by all that they show: a list that looks again makes only the rows that have changed.

A part that is kept must follow from what it is kept by alone: what the API told of it, the tenant, and what
the page says about its form. So whoever is told the same may be shown it, and it is never out of date.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from typing import Any

import orjson

# Bytes of what the parts show, of all and of the largest one.
MOST_BYTES, LARGEST = 4_000_000, 100_000

_lock = threading.Lock()
_parts: dict[bytes, Any] = {}
_bytes = 0


def kept(*shown: Any, caller: Callable[[], Any]) -> Any:
    """What `caller` made when it was asked for the same before, or makes now.

    In templates: `{% call kept("row", …) %}` around a part.

    Args:
        shown: the name of the part, and all that it shows: what can be written as JSON.
        caller: makes the part, which nobody may change afterwards.
    """
    content = orjson.dumps(shown)
    key = hashlib.sha256(content).digest()
    part = _parts.get(key)
    if part is None:
        part = caller()
        if len(content) <= LARGEST:
            _keep(key, part, len(content))
    return part


def _keep(key: bytes, part: Any, size: int) -> None:
    global _bytes
    with _lock:
        if _bytes + size > MOST_BYTES:
            _parts.clear()
            _bytes = 0
        _parts[key] = part
        _bytes += size
