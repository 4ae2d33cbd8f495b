"""The kit's storage: a folder that workers with a storage token use, and signed URLs for the others."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from pipeweave.errors import InvalidInput, NotFound
from pipeweave.storage import LocalStorage

BACKEND = "check"
PREFIX = "/api/check-objects/"
URL_SECONDS = 3600


class Objects:
    """Objects below one folder.

    Args:
        folder: exists; a worker with storage tokens must be able to read and write it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._storage = LocalStorage(folder)
        self._key = secrets.token_bytes(32)

    def backend(self) -> dict[str, Any]:
        """What a storage token for this folder holds."""
        return {
            "id": BACKEND,
            "provider": "local",
            "endpoint": "",
            "bucket": "",
            "credentials": {"basePath": str(self.folder)},
        }

    def put_json(self, path: str, value: Any, *, padding: int = 0) -> int:
        """Store a value as JSON, followed by so many spaces; return its size in bytes."""
        content = orjson.dumps(value) + b" " * padding
        self._storage.put(path, content)
        return len(content)

    def put(self, path: str, content: bytes) -> None:
        """Store an object."""
        self._storage.put(path, content)

    def get(self, path: str) -> bytes | None:
        """Read an object; None where there is none, or the path is none."""
        try:
            return self._storage.get(path)
        except (NotFound, InvalidInput):
            return None

    def url(self, path: str, method: str, *, seconds: float = URL_SECONDS) -> str:
        """A URL below the orchestrator's that allows one method on one object.

        Args:
            seconds: how long; negative for a URL that has expired.
        """
        until = str(int(time.time() + seconds))
        return f"{PREFIX}{quote(path)}?until={until}&mac={self._mac(path, method, until)}"

    def allows(self, path: str, method: str, query: Mapping[str, str]) -> bool:
        """Whether a URL was made here for this, and has not expired."""
        until = query.get("until", "")
        sent_mac, made = query.get("mac", ""), self._mac(path, method, until)
        return hmac.compare_digest(sent_mac.encode(), made.encode()) and int(until) > time.time()

    def _mac(self, path: str, method: str, until: str) -> str:
        return hmac.new(self._key, f"{method}\n{path}\n{until}".encode(), hashlib.sha256).hexdigest()
