"""What a process has loaded stays for as long as it lives; what a request took goes back."""

from __future__ import annotations

import ctypes
import gc

# glibc's mallopt: at most so many heaps for all threads.
_M_ARENA_MAX = -8
HEAPS = 2


def freeze_loaded_objects() -> None:
    """Spare the garbage collector everything that is there now.

    Its rounds through modules and settings find nothing, take milliseconds in the middle of a request or a
    step, and write to each object: a child would get its own copy of what it shares with its parent.
    """
    gc.collect()
    gc.freeze()


def limit_malloc_heaps() -> None:
    """Have threads share heaps. By default each thread of glibc keeps one, as large as the largest request it
    ever served; the interpreter's lock lets one thread at a time allocate anyway. Elsewhere nothing changes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, HEAPS)
