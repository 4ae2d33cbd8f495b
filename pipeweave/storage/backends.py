"""Open all storage backends of a deployment, and choose the one that a new value is written to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pipeweave.errors import FieldError, InvalidSetting
from pipeweave.settings import Settings
from pipeweave.storage.base import Storage
from pipeweave.storage.gcs import GcsStorage
from pipeweave.storage.gcs_bucket import GcsBucket
from pipeweave.storage.local import LocalStorage
from pipeweave.storage.references import ObjectRef
from pipeweave.storage.s3 import S3Storage
from pipeweave.storage.s3_bucket import S3Bucket
from pipeweave.storage.seats import Seats

# The backend of a deployment without STORAGE_BACKENDS.
LOCAL = "local"

_PUBLIC = ("id", "provider", "endpoint", "bucket", "region")

Entry = Mapping[str, Any]


class Backends:
    """The storage backends by id. Each connects on first use; the repr shows no credentials.

    Args:
        entries: as of STORAGE_BACKENDS; at least one.
        default_id: the backend of values that belong nowhere else; by default the entry that is marked
            `isDefault`, else the first.
        opened: backends that are open already, for tests.

    Raises:
        InvalidSetting: a provider does not exist, or a package that it needs is not installed.
    """

    def __init__(
        self,
        entries: Iterable[Entry],
        default_id: str | None = None,
        *,
        opened: Mapping[str, Storage] | None = None,
    ) -> None:
        self._entries = {each["id"]: each for each in entries}
        storages = opened or {}
        self._opened = {
            name: storages[name] if name in storages else open_backend(each)
            for name, each in self._entries.items()
        }
        marked = (name for name, each in self._entries.items() if each.get("isDefault"))
        self.default_id: str = default_id or next(marked, next(iter(self._entries)))
        """The id of the backend of values that belong nowhere else."""
        self._of_pipelines = [each for each in self._entries.values() if "pipelines" in each]
        self._of_tenants = [
            each for each in self._entries.values() if "tenants" in each and "pipelines" not in each
        ]

    @classmethod
    def of(cls, settings: Settings) -> Backends:
        """The backends of STORAGE_BACKENDS; without it, files below DATA_DIR are the backend `local`."""
        folder = str(Path(settings.data_dir).absolute() / "storage")
        own = {"id": LOCAL, "provider": "local", "credentials": {"basePath": folder}}
        return cls(settings.storage_backends or (own,), settings.default_storage_backend_id)

    @classmethod
    def only(cls, storage: Storage, backend_id: str = LOCAL) -> Backends:
        """A storage as the only backend, for tests."""
        entry = {"id": backend_id, "provider": "local", "credentials": {}}
        return cls((entry,), opened={backend_id: storage})

    def __repr__(self) -> str:
        return f"Backends({list(self._opened.values())!r}, default_id={self.default_id!r})"

    def share(self, seats: Seats) -> None:
        """Let no more wait for the backends at a time than there are seats. A local backend needs none."""
        for each in self._opened.values():
            if isinstance(each, S3Storage | GcsStorage):
                each.gate.seats = seats

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all backends."""
        return tuple(self._entries)

    @property
    def default(self) -> Storage:
        """The backend of values that belong nowhere else."""
        return self._opened[self.default_id]

    def get(self, backend_id: str) -> Storage:
        """The backend with this id.

        Raises:
            InvalidSetting: there is no such backend.
        """
        self._require(backend_id)
        return self._opened[backend_id]

    def locate(self, reference: str) -> tuple[Storage, str]:
        """The backend and the path of a reference (see `references.py`).

        Raises:
            InvalidSetting: its backend is not there any more.
        """
        place = ObjectRef.parse(reference, self.default_id)
        return self.get(place.backend), place.path

    def choose(self, tenant: str, pipeline_id: str | None) -> str:
        """The id of the backend that new values of a pipeline are written to.

        The first that names the pipeline, and the tenant if it names any; else the first that names the
        tenant and no pipelines; else the default.

        Args:
            pipeline_id: None for a standalone task.
        """
        for each in self._of_pipelines:
            if pipeline_id in each["pipelines"] and tenant in each.get("tenants", (tenant,)):
                return str(each["id"])
        for each in self._of_tenants:
            if tenant in each["tenants"]:
                return str(each["id"])
        return self.default_id

    def entry(self, backend_id: str) -> Entry:
        """The entry of a backend with its credentials: for storage tokens only.

        Raises:
            InvalidSetting: there is no such backend.
        """
        self._require(backend_id)
        return self._entries[backend_id]

    def describe(self, tenant: str | None = None) -> list[dict[str, Any]]:
        """The backends without credentials.

        Args:
            tenant: leave out what is for other tenants alone, and the names of other tenants; None shows all.
        """
        return [
            self._shown(each, tenant)
            for each in self._entries.values()
            if tenant is None or tenant in each.get("tenants", (tenant,)) or each["id"] == self.default_id
        ]

    def _shown(self, entry: Entry, tenant: str | None) -> dict[str, Any]:
        tenants = [each for each in entry.get("tenants", ()) if tenant in (None, each)]
        named = {"tenants": tenants, "pipelines": list(entry.get("pipelines", ()))}
        return {
            **{name: entry[name] for name in _PUBLIC if name in entry},
            "isDefault": entry["id"] == self.default_id,
            **{name: listed for name, listed in named.items() if listed},
        }

    def _require(self, backend_id: str) -> None:
        if backend_id not in self._entries:
            detail = f"there is no storage backend {backend_id[:200]!r}"
            raise InvalidSetting(
                detail,
                errors=[FieldError("STORAGE_BACKENDS", detail, "unknown")],
                hint=f"values were written to it; add it to STORAGE_BACKENDS, beside {', '.join(self.ids)}",
            )


def open_backend(entry: Entry) -> Storage:
    """Open the backend of an entry of STORAGE_BACKENDS, or of what a storage token holds.

    Raises:
        InvalidSetting: the provider does not exist, a package that it needs is not installed, or a member is
            missing.
    """
    try:
        return _open(entry)
    except KeyError as error:
        detail = f"storage backend {entry['id']!r} has no {error.args[0]}"
        raise InvalidSetting(detail, errors=[FieldError("STORAGE_BACKENDS", detail)]) from None


def _open(entry: Entry) -> Storage:
    match entry["provider"]:
        case "local":
            return LocalStorage(entry["credentials"]["basePath"])
        case "aws-s3" | "minio":
            return S3Storage(S3Bucket.of(entry))
        case "gcs":
            return GcsStorage(GcsBucket.of(entry))
        case other:
            detail = f"storage backend {entry['id']!r}: provider {other!r} does not exist"
            raise InvalidSetting(
                detail,
                errors=[FieldError("STORAGE_BACKENDS", detail)],
                hint="use provider local, aws-s3, minio or gcs",
            )
