"""Walks the files below a folder in the order of their paths, as a bucket lists its objects.

The order is that of whole paths, not of folders: `a.b` stands before `a/b`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path


def walk(root: Path, prefix: str, after: str, *, without: str) -> Iterator[tuple[str, os.stat_result]]:
    """The files below `root` whose paths begin with `prefix`, and come behind `after`.

    A file or folder that vanishes meanwhile is left out, and so are links: they may lead outside.

    Args:
        without: a folder below the root that is left out.
    """
    return _walk(root, "", prefix, after, f"{without}/")


def _walk(
    root: Path, folder: str, prefix: str, after: str, without: str = ""
) -> Iterator[tuple[str, os.stat_result]]:
    for name in _names(root / folder, after.removeprefix(folder) if after.startswith(folder) else ""):
        path = folder + name
        if name == without or not (path.startswith(prefix) or prefix.startswith(path)):
            continue
        if name.endswith("/"):
            yield from _walk(root, path, prefix, after)
        elif path.startswith(prefix) and (status := _stat(root / path)) is not None:
            yield path, status


def _names(folder: Path, after: str) -> list[str]:
    """What is in a folder behind a path in it, in order; the names of folders end with a slash.

    There may be very many: what is behind nothing wanted is dropped before the rest is sorted.
    """
    try:
        with os.scandir(folder) as entries:
            names = (f"{each.name}/" if each.is_dir(follow_symlinks=False) else each.name for each in entries)
            # A folder that `after` lies in has further paths behind it.
            return sorted(name for name in names if _is_behind(name, after) and _is_text(name))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_behind(name: str, after: str) -> bool:
    return name > after or (name.endswith("/") and after.startswith(name))


def _is_text(name: str) -> bool:
    """Whether a name is valid UTF-8; no object has another one."""
    if name.isascii():
        return True
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False


def _stat(file: Path) -> os.stat_result | None:
    """A file's status; None for what is no file."""
    try:
        status = os.stat(file, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None
