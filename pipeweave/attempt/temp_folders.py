"""Make the temporary folder of an attempt, and remove those that killed processes have left behind.

Each folder holds a file that its process keeps locked. The lock ends with the process, however it ends; so a
folder whose lock can be taken belongs to nobody.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

_PREFIX = "pipeweave-attempt-"
_LOCK = ".lock"


class TempFolder:
    """A new folder, for this account alone.

    Args:
        root: the folder in which it is made; the system's by default.
    """

    def __init__(self, root: Path | None = None) -> None:
        if root is not None:
            root.mkdir(parents=True, exist_ok=True)
        self.path, self._lock = _made(root)

    def remove(self) -> None:
        """Delete the folder and all that it holds."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _made(root: Path | None) -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
        lock = os.open(path / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Another process may have taken it for left behind before it was locked.
        if (path / _LOCK).exists():
            return path, lock
        os.close(lock)


def remove_left_behind(root: Path | None = None) -> int:
    """Delete the folders of processes that are gone; returns how many there were."""
    folders = Path(root or tempfile.gettempdir()).glob(f"{_PREFIX}*")
    return sum(_remove_if_left_behind(each) for each in folders)


def _remove_if_left_behind(folder: Path) -> bool:
    with suppress(OSError):
        if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
            return False
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
            return True
        finally:
            os.close(lock)
    return False
