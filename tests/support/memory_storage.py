"""A storage in memory, for tests: it can be away, and counts what is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pipeweave.errors import NotFound, Unavailable


@dataclass(slots=True)
class MemoryStorage:
    """Objects in a dictionary.

    Args:
        is_away: every use raises Unavailable.
        before_use: called before every use; raises to make it fail.
        reads: the paths that were read, in their order.
    """

    objects: dict[str, bytes] = field(default_factory=dict)
    is_away: bool = False
    before_use: Callable[[], None] = lambda: None
    reads: list[str] = field(default_factory=list)

    def put(self, path: str, content: bytes) -> None:
        self._use()
        self.objects[path] = content

    def get(self, path: str) -> bytes:
        self._use()
        self.reads.append(path)
        if path not in self.objects:
            raise NotFound(f"there is no stored object {path!r}", path=path)
        return self.objects[path]

    def exists(self, path: str) -> bool:
        self._use()
        return path in self.objects

    def delete(self, path: str) -> None:
        self._use()
        self.objects.pop(path, None)

    def _use(self) -> None:
        if self.is_away:
            raise Unavailable("storage is away")
        self.before_use()
