"""Find the database that holds the history, and the storage of its archives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from pipeweave.cli.support.connection import data_dir_option
from pipeweave.settings import Settings, connecting, load
from pipeweave.storage import Backends, GcsStorage, LocalStorage, S3Storage, Storage


@dataclass(frozen=True, slots=True)
class Place:
    """The database that holds the history, and the storage of its archives."""

    database_url: str
    settings: Settings

    @property
    def storage(self) -> Storage:
        """The default storage backend, which holds the archives."""
        return Backends.of(self.settings).default

    @property
    def storage_name(self) -> str:
        """The bucket or folder of the archives, shown because it depends on the settings of this machine."""
        storage = self.storage
        if isinstance(storage, S3Storage | GcsStorage):
            return f"bucket {storage.bucket.name}"
        return str(storage.root) if isinstance(storage, LocalStorage) else "storage"


def with_place(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags --database-url and --data-dir to a command, and pass it a `place`."""

    @click.option("--database-url", help="postgresql://user:password@host:port/database")
    @data_dir_option
    @functools.wraps(command)
    def with_place(*, database_url: str | None, data_dir: Path | None, **given: Any) -> Any:
        settings = connecting.deployment(load(), database_url=database_url, data_dir=data_dir)
        return command(place=Place(str(settings.database_url), settings), **given)

    return with_place
