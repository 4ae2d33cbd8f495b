"""Count the calls of Python functions of a process, from its start.

Python imports this by itself in each process whose PYTHONPATH names this folder. The count is the first eight
bytes of a file of the process, which others read while it runs.
"""

from __future__ import annotations

import mmap
import os
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

_FOLDER = os.environ.get("COUNTED_CALLS")


def _count(folder: Path) -> None:
    """Count the calls of this process and its threads from now on, from zero."""
    with (folder / str(os.getpid())).open("wb+") as file:
        file.truncate(8)
        calls = memoryview(mmap.mmap(file.fileno(), 8)).cast("Q")

    def seen(_frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            calls[0] += 1

    threading.setprofile(seen)
    sys.setprofile(seen)


if _FOLDER:
    _count(Path(_FOLDER))
    os.register_at_fork(after_in_child=lambda: _count(Path(_FOLDER or "")))
