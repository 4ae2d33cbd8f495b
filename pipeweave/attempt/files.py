"""The files of one attempt: assets of its own and of earlier steps, uploads, a folder for itself.

Assets lie in the attempt's folder until the task has succeeded. So a failed attempt stores nothing, and a
large file is never held in memory. Nothing is made or asked for before the task uses it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pipeweave.attempt.asset_values import BINARY, CONTENT_TYPES, asset_bytes, asset_value, checked_key
from pipeweave.attempt.temp_folders import TempFolder
from pipeweave.errors import FieldError, InvalidInput, NotFound
from pipeweave.size_limits import MAX_ASSET_BYTES, MAX_ASSETS


@dataclass(frozen=True, slots=True)
class StoredFile:
    """An asset or an upload in storage.

    Args:
        place: where it is, in the words of the FileMeans that found it.
        name: its file name; empty for an asset.
    """

    place: str
    size: int
    type: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class AddedAsset:
    """An asset of this attempt, in the attempt's folder."""

    path: Path
    size: int
    type: str


class FileMeans(Protocol):
    """How a kind of worker finds and reads what is stored. Every method may raise `Unavailable`."""

    def asset(self, key: str) -> StoredFile | None:
        """The asset of a completed step before this one."""

    def uploaded(self, upload_id: str) -> StoredFile | None:
        """An upload that the input of the run names."""

    def read(self, file: StoredFile) -> AbstractContextManager[Iterable[bytes]]:
        """The content of such a file, piece by piece."""


class Files:
    """The `AttemptFiles` of one attempt.

    Args:
        temp_root: the folder in which the attempt's folder is made; the system's by default.
    """

    def __init__(self, means: FileMeans, temp_root: Path | None = None) -> None:
        self._means = means
        self._temp_root = temp_root
        self._folder: TempFolder | None = None
        self.added: dict[str, AddedAsset] = {}

    @property
    def temp_dir(self) -> Path:
        return self._place("work")

    def add(self, key: str, value: Any) -> None:
        content, type_ = asset_bytes(value)
        path = self._place_of(key)
        path.write_bytes(content)
        self._add(key, path, type_)

    def add_path(self, key: str, path: Path) -> None:
        kept = self._place_of(key)
        try:
            shutil.copyfile(path, kept)
        except OSError as error:
            wrong = FieldError("path", f"cannot be read: {error.strerror}")
            raise InvalidInput(f"{str(path)!r} {wrong.message}", errors=[wrong]) from error
        self._add(key, kept, BINARY)

    def replace(self, key: str, content: bytes) -> None:
        """Give an asset of this attempt another content, of the same type."""
        asset = self.added[key]
        asset.path.write_bytes(content)
        self._add(key, asset.path, asset.type)

    def get(self, key: str) -> Any:
        if (own := self.added.get(checked_key(key))) is not None:
            return asset_value(own.path.read_bytes(), own.type)
        asset = self._stored_file(key)
        with self._means.read(asset) as pieces:
            return asset_value(b"".join(pieces), asset.type)

    def get_path(self, key: str) -> Path:
        if (own := self.added.get(checked_key(key))) is not None:
            return own.path
        return self._loaded(self._stored_file(key), self._place("upstream") / key)

    def upload(self, upload_id: str) -> Path:
        upload = self._means.uploaded(upload_id)
        if upload is None:
            raise NotFound(f"the run's input names no upload {upload_id!r}"[:300])
        folder = self._place("uploads") / checked_key(upload_id)
        folder.mkdir(exist_ok=True)
        return self._loaded(upload, folder / (Path(upload.name).name or "file"))

    def add_pieces(self, key: str, type_: str, pieces: Iterator[bytes]) -> None:
        """Keep what arrives piece by piece as an asset of this type.

        Raises:
            InvalidInput: the key or the type is invalid, there are too many assets, or it is too large; all
                pieces are taken nevertheless.
        """
        with ExitStack() as after:
            after.callback(lambda: all(True for _ in pieces))
            if type_ not in CONTENT_TYPES:
                raise InvalidInput(f"{type_!r:.100} is no type of an asset")
            kept, left = self._place_of(key), MAX_ASSET_BYTES + 1
            with kept.open("wb") as file:
                while left and (piece := next(pieces, b"")):
                    file.write(piece[:left])
                    left -= len(piece[:left])
        self._add(key, kept, type_)

    def stored(self, key: str) -> tuple[Path, str]:
        """A file with the content of an asset, and the type of the asset.

        Raises:
            NotFound, Unavailable: as `AttemptFiles.get_path`.
        """
        if (own := self.added.get(checked_key(key))) is not None:
            return own.path, own.type
        asset = self._stored_file(key)
        return self._loaded(asset, self._place("upstream") / key), asset.type

    def store(self, put: Callable[[str, AddedAsset], Mapping[str, Any]]) -> dict[str, dict[str, Any]] | None:
        """Store the attempt's own assets, once the task has succeeded.

        Args:
            put: stores the asset of a key, and says where it is: {path, …}.

        Returns:
            {path, size, type, …} by key; None if the task has added no asset.
        """
        if not self.added:
            return None
        return {
            key: {"size": each.size, "type": each.type, **put(key, each)} for key, each in self.added.items()
        }

    def close(self) -> None:
        """Delete the attempt's folder, if it was made."""
        if self._folder is not None:
            self._folder.remove()
            self._folder = None

    def _place(self, name: str) -> Path:
        if self._folder is None:
            self._folder = TempFolder(self._temp_root)
        place = self._folder.path / name
        place.mkdir(exist_ok=True)
        return place

    def _place_of(self, key: str) -> Path:
        checked_key(key)
        if key not in self.added and len(self.added) >= MAX_ASSETS:
            raise InvalidInput(f"an attempt has at most {MAX_ASSETS} assets", hint="put them into an archive")
        return self._place("assets") / key

    def _add(self, key: str, path: Path, type_: str) -> None:
        size = path.stat().st_size
        if size > MAX_ASSET_BYTES:
            path.unlink()
            raise InvalidInput(f"asset {key!r} has {size} bytes, an asset has at most {MAX_ASSET_BYTES}")
        self.added[key] = AddedAsset(path, size, type_)

    def _stored_file(self, key: str) -> StoredFile:
        asset = self._means.asset(key)
        if asset is None:
            raise NotFound(f"no completed step before this one has an asset {key!r}")
        return asset

    def _loaded(self, file: StoredFile, path: Path) -> Path:
        if not path.exists():
            part = path.with_name(f".{path.name[:100]}.part")
            with self._means.read(file) as pieces, part.open("wb") as target:
                for each in pieces:
                    target.write(each)
            part.replace(path)
        return path
