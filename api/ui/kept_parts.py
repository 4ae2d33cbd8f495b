"""Keeps parts of pages by all that they show: a list that looks again makes only the rows that have changed.

A part that is kept must follow from what it is kept by alone: what the API told of it, the tenant, and what
the page says about its form. So whoever is told the same may be shown it, and it is never out of date.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import orjson

from pipeweave.orchestrator.store import Cache

# The most parts, and the bytes of what the largest one shows: a row has some 600, a chart a few thousand.
MOST, LARGEST = 2_000, 16_000

# Not of a database: a part follows from what it shows, wherever that was read.
_parts = Cache[bytes, Any](MOST)


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
            _parts.put(key, part)
    return part
