"""Where values too large for a row live."""

from __future__ import annotations

from pathlib import Path

from pipeweave.errors import FieldError, InvalidSetting
from pipeweave.settings import Settings
from pipeweave.storage.base import Storage
from pipeweave.storage.local import LocalStorage
from pipeweave.storage.s3 import Bucket, S3Storage

__all__ = ["LocalStorage", "S3Storage", "Storage", "open_storage"]


def open_storage(settings: Settings) -> Storage:
    """The default storage backend: files below DATA_DIR unless STORAGE_BACKENDS names another place.

    Nothing is connected to before it is used.

    Raises:
        InvalidSetting: there is no such provider, or what its backends need is not installed.
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
