"""A storage in memory, for tests: it can be away, and counts what is read."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pipeweave.errors import NotFound, Unavailable
from pipeweave.storage import ObjectInfo, Readable, WrittenContent
from pipeweave.storage.base import too_large


@dataclass(slots=True)
class MemoryStorage:
    """Objects in a dictionary.

    Args:
        is_away: every use raises Unavailable.
        before_use: called before every use; raises to make it fail.
        reads: the paths that were read, in their order.
        times: when an object was written, if that was not just now.
    """

    objects: dict[str, bytes] = field(default_factory=dict)
    is_away: bool = False
    before_use: Callable[[], None] = lambda: None
    reads: list[str] = field(default_factory=list)
    times: dict[str, datetime] = field(default_factory=dict)

    def put(self, path: str, content: bytes, *, content_type: str = "", is_durable: bool = True) -> None:
        self._use()
        self.objects[path] = content
        self.times.pop(path, None)

    def put_stream(self, path: str, file: Readable, *, limit: int, content_type: str = "") -> WrittenContent:
        content = b"".join(iter(lambda: file.read(65_536), b""))
        if len(content) > limit:
            raise too_large(path, limit)
        self.put(path, content)
        return WrittenContent(len(content), hashlib.sha256(content).hexdigest())

    def get(self, path: str, *, limit: int | None = None) -> bytes:
        self._use()
        self.reads.append(path)
        if path not in self.objects:
            raise NotFound(f"there is no stored object {path!r}", path=path)
        if limit is not None and len(self.objects[path]) > limit:
            raise too_large(path, limit)
        return self.objects[path]

    @contextmanager
    def open(self, path: str, *, start: int = 0, length: int | None = None) -> Iterator[Iterator[bytes]]:
        content = self.get(path)[start:][:length]
        yield iter([content] if content else [])

    def stat(self, path: str) -> ObjectInfo | None:
        self._use()
        return self._info(path) if path in self.objects else None

    def exists(self, path: str) -> bool:
        return self.stat(path) is not None

    def delete(self, path: str) -> None:
        self._use()
        self.objects.pop(path, None)

    def list(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[ObjectInfo]:
        self._use()
        paths = sorted(each for each in self.objects if each.startswith(prefix) and each > after)
        return [self._info(each) for each in paths[:limit]]

    def presign(self, path: str, *, method: str, seconds: int) -> str | None:
        return None

    def _info(self, path: str) -> ObjectInfo:
        return ObjectInfo(path, len(self.objects[path]), self.times.get(path, datetime.now(UTC)))

    def _use(self) -> None:
        if self.is_away:
            raise Unavailable("storage is away")
        self.before_use()


class SilentStorage(MemoryStorage):
    """A storage that answers nobody until `answers` is set; `asked` is released for each who asks."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = threading.Event()
        self.asked = threading.Semaphore(0)
        self.before_use = self._wait

    def _wait(self) -> None:
        self.asked.release()
        assert self.answers.wait(60)
