"""Storage backends for values too large for a row: files of a folder, or a bucket of Amazon S3 or MinIO.

The orchestrator (its room `store`), retention and the workers call it. It imports the base modules and
`settings`. It must never be called while a transaction holds row locks: a backend may be slow.
"""

from __future__ import annotations

from pathlib import Path

from pipeweave.errors import FieldError, InvalidSetting
from pipeweave.settings import Settings
from pipeweave.storage.base import Storage
from pipeweave.storage.local import LocalStorage
from pipeweave.storage.s3 import Bucket, S3Storage

__all__ = ["LocalStorage", "S3Storage", "Storage", "open_storage"]


def open_storage(settings: Settings) -> Storage:
    """Open the default storage backend: files below DATA_DIR, unless STORAGE_BACKENDS names another backend.

    The backend connects on first use.

    Raises:
        InvalidSetting: the provider does not exist, or a package that it needs is not installed.
    """
    backends = {each["id"]: each for each in settings.storage_backends}
    chosen = settings.default_storage_backend_id or next(
        (name for name, each in backends.items() if each.get("isDefault")), next(iter(backends), None)
    )
    if chosen is None:
        return LocalStorage(Path(settings.data_dir) / "storage")
    backend = backends[chosen]
    match backend["provider"]:
        case "local":
            return LocalStorage(backend["credentials"]["basePath"])
        case "aws-s3" | "minio":
            return S3Storage(Bucket.of(backend))
        case other:
            detail = f"storage backend {chosen!r}: provider {other!r} does not exist"
            raise InvalidSetting(
                detail,
                errors=[FieldError("STORAGE_BACKENDS", detail)],
                hint="use provider aws-s3, minio or local",
            )
