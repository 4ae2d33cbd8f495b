"""Find the database that holds the history, and the storage of its archives."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from pipeweave.cli.support.connection import Command
from pipeweave.cli.support.deployment_options import with_deployment
from pipeweave.settings import Settings
from pipeweave.storage import Backends, GcsStorage, LocalStorage, S3Storage, Storage


@dataclass(frozen=True, slots=True)
class HistoryPlace:
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


def with_place(command: Command) -> Command:
    """Add the flags --database-url and --data-dir to a command, and pass it a `place`."""

    @with_deployment
    @functools.wraps(command)
    def with_place(*, settings: Settings, **values: Any) -> Any:
        return command(place=HistoryPlace(str(settings.database_url), settings), **values)

    return with_place
