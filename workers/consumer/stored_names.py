"""Values that the runs of a tenant store under names, for runs to come.

No row refers to them, and the sweep of what no row refers to never lists them: they stay until somebody
deletes them.
"""

from __future__ import annotations

from pipeweave.authoring.deployment_means import NamedValue
from pipeweave.errors import NotFound
from pipeweave.size_limits import MAX_NAMED_BYTES
from pipeweave.storage import Storage

FOLDER = "named-values"
_SUFFIX = ".json"


class StoredNames:
    """The named values of one tenant in one backend."""

    def __init__(self, storage: Storage, tenant: str) -> None:
        self._storage = storage
        self._folder = f"{FOLDER}/{tenant}/"

    def put(self, name: str, content: bytes) -> None:
        self._storage.put(self._path(name), content, content_type="application/json")

    def get(self, name: str) -> bytes | None:
        try:
            return self._storage.get(self._path(name), limit=MAX_NAMED_BYTES)
        except NotFound:
            return None

    def delete(self, name: str) -> bool:
        is_there = self._storage.exists(self._path(name))
        self._storage.delete(self._path(name))
        return is_there

    def list(self, prefix: str, after: str, limit: int) -> list[NamedValue]:
        listed = self._storage.list(
            f"{self._folder}{prefix}", after=self._path(after) if after else "", limit=limit
        )
        return [NamedValue(self._name(each.path), each.size, each.modified_at) for each in listed]

    def _path(self, name: str) -> str:
        return f"{self._folder}{name}{_SUFFIX}"

    def _name(self, path: str) -> str:
        return path.removeprefix(self._folder).removesuffix(_SUFFIX)
