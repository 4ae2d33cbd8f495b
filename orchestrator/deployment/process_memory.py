"""Keeps a process's memory small: shared pages of loaded objects, and few malloc heaps."""

from __future__ import annotations

import ctypes
import gc

# The mallopt option of glibc for the number of heaps (arenas) that all threads share, and its value.
_M_ARENA_MAX = -8
HEAPS = 2


def freeze_loaded_objects() -> None:
    """Exempt every object that exists now from garbage collection.

    Collecting modules and settings frees nothing, takes milliseconds in the middle of a request or a step,
    and writes to each object, so that a forked child would copy the pages it shares with its parent.
    """
    gc.collect()
    gc.freeze()


def limit_malloc_heaps() -> None:
    """Make all threads share HEAPS malloc heaps. Without glibc this does nothing.

    By default glibc gives each thread a heap, which stays as large as the largest request that it served.
    Sharing costs little, because the interpreter's lock lets only one thread at a time allocate.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, HEAPS)
