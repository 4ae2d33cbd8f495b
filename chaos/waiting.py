"""Waits for what others do."""

from __future__ import annotations

import time
from collections.abc import Callable


def waited(is_so: Callable[[], bool], seconds: float, every_s: float = 0.05) -> bool:
    """Poll a condition for this many seconds; True if it became true."""
    until = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > until:
            return False
        time.sleep(every_s)
    return True
