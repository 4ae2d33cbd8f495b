"""What a process has loaded by the time it is ready stays for as long as it lives."""

from __future__ import annotations

import gc


def keep_loaded() -> None:
    """Spare the garbage collector everything that is there now.

    Its rounds through modules and settings find nothing, take milliseconds in the middle of a request or a
    step, and write to each object: a child would get its own copy of what it shares with its parent.
    """
    gc.collect()
    gc.freeze()
