"""Where values too large for a row live."""

from __future__ import annotations

from pathlib import Path

from pipeweave.errors import InvalidSetting
from pipeweave.settings import Settings
from pipeweave.storage.base import Storage
from pipeweave.storage.local import LocalStorage

__all__ = ["LocalStorage", "Storage", "open_storage"]


def open_storage(settings: Settings) -> Storage:
    """The default storage backend: files below DATA_DIR unless STORAGE_BACKENDS names another place.

    Raises:
        InvalidSetting: the default backend's provider is not `local`, the only one there is yet.
    """
    backends = {each["id"]: each for each in settings.storage_backends}
    chosen = settings.default_storage_backend_id or next(
        (name for name, each in backends.items() if each.get("isDefault")), next(iter(backends), None)
    )
    if chosen is None:
        return LocalStorage(Path(settings.data_dir) / "storage")
    backend = backends[chosen]
    if backend["provider"] != "local":
        raise InvalidSetting(
            f"storage backend {chosen!r}: provider {backend['provider']!r} is not available",
            hint="use provider 'local' with credentials {\"basePath\": …} on a volume that every host mounts",
        )
    return LocalStorage(backend["credentials"]["basePath"])
