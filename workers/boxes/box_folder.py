"""Empties the folder of a box, whatever lies in it: also folders in folders, deeper than any path is long."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

MOST = 100_000
"""So many files and folders are deleted between two calls; a box that has left more is replaced."""


def empty(folder: Path, most: int | None = MOST) -> bool:
    """Delete all that lies in a folder. No link is followed.

    Returns:
        Whether the folder is empty now; not if more than `most` entries lie in it.
    """
    left = most if most is not None else 1 << 62
    number = 0
    with suppress(OSError):
        while entries := _entries(folder):
            for entry in entries:
                if (left := left - 1) < 0:
                    return False
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)
                    continue
                number = _lift_folders(Path(entry.path), folder, number)
        return True
    return False


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return list(entries)


def _lift_folders(inner: Path, folder: Path, number: int) -> int:
    """Delete a folder's files, and move the folders in it up by one level, so that no path becomes long."""
    os.chmod(inner, 0o700)  # it may have been made without any right
    for entry in _entries(inner):
        if entry.is_dir(follow_symlinks=False):
            number += 1
            while (place := folder / f".{number}").exists():
                number += 1
            os.rename(entry.path, place)
        else:
            os.unlink(entry.path)
    os.rmdir(inner)
    return number
