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
    for name in _names(root / folder):
        path = folder + name
        if name == without or not (path.startswith(prefix) or prefix.startswith(path)):
            continue
        if name.endswith("/"):
            # Every path in a folder before `after` is before it, unless `after` is in the folder.
            if path > after or after.startswith(path):
                yield from _walk(root, path, prefix, after)
        elif path > after and path.startswith(prefix):
            try:
                found = os.stat(root / path, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(found.st_mode):
                yield path, found


def _names(folder: Path) -> list[str]:
    """What is in a folder, in order; the names of folders end with a slash."""
    try:
        with os.scandir(folder) as entries:
            found = [
                each.name + ("/" if each.is_dir(follow_symlinks=False) else "")
                for each in entries
                if not each.is_symlink() and _is_text(each.name)
            ]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(found)


def _is_text(name: str) -> bool:
    """Whether a name is valid UTF-8; no object has another one."""
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False
