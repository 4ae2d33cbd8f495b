"""The files of attempts that run in this process: assets by step, uploads that the test gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeweave.attempt import Files, StoredFile, asset_value
from pipeweave.attempt.asset_values import asset_bytes

# Content and type of an asset.
Kept = tuple[bytes, str]


class LocalFiles:
    """The `FileMeans` of one attempt.

    Args:
        assets: the assets of the steps before it; of two with the same key, the first mapping's wins.
        uploads: the files of uploads, by id.
    """

    def __init__(
        self, assets: Sequence[Mapping[str, Kept]] = (), uploads: Mapping[str, Path] | None = None
    ) -> None:
        self._assets = assets
        self._uploads = uploads or {}

    def asset(self, key: str) -> StoredFile | None:
        asset = self._kept(key)
        return None if asset is None else StoredFile(f"assets/{key}", len(asset[0]), asset[1])

    def uploaded(self, upload_id: str) -> StoredFile | None:
        path = self._uploads.get(upload_id)
        return None if path is None else StoredFile(f"uploads/{upload_id}", 0, "", Path(path).name)

    @contextmanager
    def read(self, file: StoredFile) -> Iterator[Iterable[bytes]]:
        kind, _, name = file.place.partition("/")
        if kind == "uploads":
            yield [Path(self._uploads[name]).read_bytes()]
        else:
            asset = self._kept(name)
            yield [] if asset is None else [asset[0]]

    def _kept(self, key: str) -> Kept | None:
        return next((each[key] for each in self._assets if key in each), None)


def given_assets(assets: Mapping[str, Any] | None) -> dict[str, Kept]:
    """The assets that a test gives: values, or paths of files."""
    return {
        key: (value.read_bytes(), "binary") if isinstance(value, Path) else asset_bytes(value)
        for key, value in (assets or {}).items()
    }


def added_assets(files: Files) -> dict[str, Kept]:
    """The assets that an attempt has added."""
    return {key: (each.path.read_bytes(), each.type) for key, each in files.added.items()}


def values_of(assets: Mapping[str, Kept]) -> dict[str, Any]:
    """The values of assets by key, as `get_asset` gives them."""
    return {key: asset_value(content, type_) for key, (content, type_) in assets.items()}
