"""Import what a process needs without looking for garbage meanwhile."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Objects beyond those that were freed, after which Python looks for garbage; it does at 700 otherwise.
_OBJECTS = 100_000


@contextmanager
def importing() -> Iterator[None]:
    """For imports of hundreds of modules: they make much that stays, and no garbage to speak of.

    Looking for it a thousand times takes a sixth of the start of a process. Afterwards all is as before.
    """
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
