"""Store objects as files below one directory, for one host or a shared volume."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from pipeweave.errors import InvalidInput, Unavailable
from pipeweave.storage.base import (
    BINARY,
    PIECE_BYTES,
    Measured,
    Method,
    ObjectInfo,
    Readable,
    WrittenContent,
    checked_path,
    checked_prefix,
    missing,
    too_large,
)
from pipeweave.storage.local_listing import walk

# Files that are being written: below the root, so that a rename is enough, and in no object's way.
INCOMING = ".incoming"
# The age (s) of a file in INCOMING that nobody is writing any more.
STALE_AFTER_S = 86_400.0
# How often a write makes the folder of its object anew, when deletions take it away.
MOVE_TRIES = 20


class LocalStorage:
    """Files below `root`. A write creates a new file and renames it, so readers never see a partial file.

    Values may be secrets: only the account of the process may read the files and folders that it creates.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).resolve()
        self._root = str(self.root).rstrip("/")
        self._incoming = f"{self._root}/{INCOMING}"

    def __repr__(self) -> str:
        return f"LocalStorage({str(self.root)!r})"

    def put(self, path: str, content: bytes, *, content_type: str = BINARY, is_durable: bool = True) -> None:
        self._write(path, (content,), None, is_durable=is_durable)

    def put_stream(
        self, path: str, file: Readable, *, limit: int, content_type: str = BINARY
    ) -> WrittenContent:
        source = Measured(path, file, limit)
        self._write(path, source.parts(PIECE_BYTES), source, is_durable=True)
        return source.written

    def _write(self, path: str, parts: Iterable[bytes], source: Measured | None, *, is_durable: bool) -> None:
        target, is_moved = self._place(path), False
        fresh = f"{self._incoming}/{os.urandom(16).hex()}"
        try:
            descriptor = _created(fresh)
            try:
                for part in parts:
                    _write_all(descriptor, part)
                if is_durable:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            _move(fresh, target, is_durable=is_durable)
            is_moved = True
        except OSError as error:
            if source is not None and error is source.failure:
                raise
            raise _unusable("write", path, error) from error
        finally:
            if not is_moved:
                # If the disk is full or the file too large, delete the partial file.
                with contextlib.suppress(OSError):
                    os.unlink(fresh)

    def get(self, path: str, *, limit: int | None = None) -> bytes:
        with self._opened(path) as file:
            try:
                content = file.read() if limit is None else file.read(limit + 1)
            except OSError as error:
                raise _unusable("read", path, error) from error
        if limit is not None and len(content) > limit:
            raise too_large(path, limit)
        return content

    @contextmanager
    def open(self, path: str, *, start: int = 0, length: int | None = None) -> Iterator[Iterator[bytes]]:
        with self._opened(path) as file:
            file.seek(start)
            yield _pieces(path, file, length)

    def _opened(self, path: str) -> BinaryIO:
        try:
            return self._file(path).open("rb")
        except (FileNotFoundError, IsADirectoryError):
            raise missing(path) from None
        except OSError as error:
            raise _unusable("read", path, error) from error

    def stat(self, path: str) -> ObjectInfo | None:
        try:
            file = self._file(path)
            return _info(path, file.stat()) if file.is_file() else None
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _unusable("read", path, error) from error

    def exists(self, path: str) -> bool:
        return self.stat(path) is not None

    def delete(self, path: str) -> None:
        file = self._file(path)
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            raise _unusable("delete", path, error) from error
        self._remove_empty(file.parent)

    def list(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[ObjectInfo]:
        checked_prefix(prefix)
        try:
            self._remove_stale()
            files = walk(self.root, prefix, after, without=INCOMING)
            return [_info(*each) for each in itertools.islice(files, limit)]
        except OSError as error:
            raise _unusable("list", prefix, error) from error

    def presign(self, path: str, *, method: Method, seconds: int) -> str | None:
        self._file(path)
        return None

    def _file(self, path: str) -> Path:
        return Path(self._place(path))

    def _place(self, path: str) -> str:
        """The file of an object. A link below the root may lead elsewhere inside of it, and never outside."""
        parts = checked_path(path).split("/")
        file = self._root
        if parts[0] == INCOMING:
            raise _outside(path)
        try:
            for part in parts:
                file = f"{file}/{part}"
                if stat.S_ISLNK(os.lstat(file).st_mode):
                    return self._linked(path)
        except OSError:
            # What is not there has nothing below it.
            return f"{self._root}/{path}"
        return file

    def _linked(self, path: str) -> str:
        file = (self.root / path).resolve()
        if self.root not in file.parents:
            raise _outside(path)
        return str(file)

    def _remove_empty(self, folder: Path) -> None:
        """Remove a folder and those around it, as far as they are empty."""
        with contextlib.suppress(OSError):
            while folder != self.root:
                folder.rmdir()
                folder = folder.parent

    def _remove_stale(self) -> None:
        """Delete what writers that were killed left in INCOMING."""
        with contextlib.suppress(FileNotFoundError), os.scandir(self.root / INCOMING) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    if time.time() - entry.stat(follow_symlinks=False).st_mtime > STALE_AFTER_S:
                        os.unlink(entry.path)


def _pieces(path: str, file: Readable, length: int | None) -> Iterator[bytes]:
    """The next `length` bytes of a file, or all of them."""
    left = length
    try:
        while left is None or left > 0:
            piece = file.read(PIECE_BYTES if left is None else min(left, PIECE_BYTES))
            if not piece:
                return
            left = None if left is None else left - len(piece)
            yield piece
    except OSError as error:
        raise _unusable("read", path, error) from error


def _info(path: str, status: os.stat_result) -> ObjectInfo:
    return ObjectInfo(path, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))


def _unusable(verb: str, path: str, error: OSError) -> Unavailable:
    return Unavailable(
        f"storage cannot {verb} {path!r}: {error.strerror}", hint="check the disk of the storage folder"
    )


def _outside(path: str) -> InvalidInput:
    return InvalidInput(f"{path!r} is not a path inside the storage")


def _created(fresh: str) -> int:
    """Create a file that is written; its folder is usually there."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(fresh, flags, 0o600)
    except FileNotFoundError:
        _make_private(Path(fresh).parent)
        return os.open(fresh, flags, 0o600)


def _write_all(descriptor: int, part: bytes) -> None:
    written = os.write(descriptor, part)
    while written < len(part):
        written += os.write(descriptor, memoryview(part)[written:])


def _move(fresh: str, target: str, *, is_durable: bool) -> None:
    """Give a file its path, whose folder is usually there; it may vanish meanwhile, because its last object
    was deleted.
    """
    for tries_left in reversed(range(MOVE_TRIES)):
        try:
            os.rename(fresh, target)
            break
        except FileNotFoundError:
            if not tries_left:
                raise
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            _make_private(Path(target).parent, is_durable=is_durable)
    if is_durable:
        _sync_directory(os.path.dirname(target))


def _make_private(directory: Path, *, is_durable: bool = True) -> None:
    """Create a directory and its parents, each for this account alone (`mkdir(parents=True)` is not so)."""
    if not directory.is_dir():
        _make_private(directory.parent, is_durable=is_durable)
        directory.mkdir(mode=0o700, exist_ok=True)
        if is_durable:
            _sync_directory(directory.parent)


def _sync_directory(directory: str | Path) -> None:
    """Flush the directory, so that the rename survives a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
