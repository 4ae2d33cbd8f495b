"""Objects as files below one directory, for one host or a shared volume."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from pipeweave.errors import InvalidInput, NotFound
from pipeweave.storage.base import checked_path


class LocalStorage:
    """Files below `root`; a write is a new file renamed into place, so a reader never sees half of one."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).resolve()

    def put(self, path: str, content: bytes) -> None:
        target = self._file(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
        with fresh.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(target)
        _sync_directory(target.parent)

    def get(self, path: str) -> bytes:
        try:
            return self._file(path).read_bytes()
        except (FileNotFoundError, IsADirectoryError):
            raise NotFound(f"there is no stored object {path!r}", path=path) from None

    def exists(self, path: str) -> bool:
        return self._file(path).is_file()

    def delete(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._file(path).unlink()

    def _file(self, path: str) -> Path:
        found = (self.root / checked_path(path)).resolve()
        if self.root not in found.parents:
            raise InvalidInput(f"{path!r} is not a path inside the storage")
        return found


def _sync_directory(directory: Path) -> None:
    """The rename itself must survive a power cut, too."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
