"""Has the kernel kill a child whose parent is gone, without the detour that Celery takes.

Celery asks through cffi as soon as anything has imported that. cffi reads a declaration of the function with
a parser of C, which each child would load for itself: 5 MB, for one call.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

from celery import platforms

# The name that Celery calls in each new child, which its stubs do not have.
_PLATFORMS: Any = platforms

# Of Linux's prctl.h.
_SET_SIGNAL = 1
# Found here: the children share what the parent has loaded.
_LIBRARY = ctypes.CDLL(None, use_errno=True)


def ask_directly() -> None:
    """Ask by a plain call of the C library. Called before the first child is forked."""
    if sys.platform == "linux":
        _PLATFORMS._set_pdeathsig = send_when_parent_ends


def send_when_parent_ends(number: int) -> None:
    """Have the kernel send this signal to this process when its parent ends.

    Raises:
        OSError: the kernel refuses.
    """
    if _LIBRARY.prctl(_SET_SIGNAL, number, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
