"""Store objects as files below one directory, for one host or a shared volume."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from pipeweave.errors import InvalidInput, NotFound, Unavailable
from pipeweave.storage.base import checked_path


class LocalStorage:
    """Files below `root`. A write creates a new file and renames it, so readers never see a partial file.

    Values may be secrets: only the account of the process may read the files and folders that it creates.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).resolve()

    def put(self, path: str, content: bytes) -> None:
        target = self._file(path)
        fresh = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
        try:
            _make_private(target.parent)
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            fresh.rename(target)
            _sync_directory(target.parent)
        except OSError as error:
            # If the disk is full, delete the partial file.
            with contextlib.suppress(OSError):
                fresh.unlink(missing_ok=True)
            raise _unusable("write", path, error) from error

    def get(self, path: str) -> bytes:
        try:
            return self._file(path).read_bytes()
        except (FileNotFoundError, IsADirectoryError):
            raise NotFound(f"there is no stored object {path!r}", path=path) from None
        except OSError as error:
            raise _unusable("read", path, error) from error

    def exists(self, path: str) -> bool:
        return self._file(path).is_file()

    def delete(self, path: str) -> None:
        try:
            self._file(path).unlink(missing_ok=True)
        except OSError as error:
            raise _unusable("delete", path, error) from error

    def _file(self, path: str) -> Path:
        found = (self.root / checked_path(path)).resolve()
        if self.root not in found.parents:
            raise InvalidInput(f"{path!r} is not a path inside the storage")
        return found


def _unusable(verb: str, path: str, error: OSError) -> Unavailable:
    return Unavailable(
        f"storage cannot {verb} {path!r}: {error.strerror}", hint="check the disk of the storage folder"
    )


def _make_private(directory: Path) -> None:
    """Create a directory and its parents, each for this account alone (`mkdir(parents=True)` is not so)."""
    if not directory.is_dir():
        _make_private(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)


def _sync_directory(directory: Path) -> None:
    """Flush the directory, so that the rename survives a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
