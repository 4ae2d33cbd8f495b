"""The S3-compatible store of the fault test, behind a proxy in which it hangs, drips or refuses."""

from __future__ import annotations

import http.client
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from chaos.proxy import Proxy
from pipeweave.orchestrator.store.values import Values
from pipeweave.settings import Settings, environment
from pipeweave.storage.backends import Backends
from pipeweave.storage.s3 import S3Storage
from pipeweave.up.launch import Launch
from pipeweave.up.ports import LOOPBACK, free_port

ANSWER_S = 5.0


class ObjectStore:
    """A store in memory, so it is never killed.

    Args:
        folder: its working directory.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self.proxy = Proxy(self._port)

    @property
    def entry(self) -> dict[str, Any]:
        """The entry of STORAGE_BACKENDS, through the proxy."""
        return {
            "id": "store",
            "provider": "minio",
            "endpoint": f"http://{LOOPBACK}:{self.proxy.port}",
            "bucket": "chaos",
            "credentials": {"accessKey": "chaos", "secretKey": "chaos-secret"},
        }

    def launch(self) -> Launch:
        """How to start it."""
        arguments = ("-m", "moto.server", "-H", LOOPBACK, "-p", str(self._port))
        variables = {name: value for name, value in environment().items() if name in ("PATH", "HOME")}
        return Launch((sys.executable, *arguments), variables, cwd=self._folder)

    def is_ready(self) -> bool:
        """Whether it answers."""
        try:
            with closing(http.client.HTTPConnection(LOOPBACK, self._port, timeout=ANSWER_S)) as connection:
                connection.request("GET", "/moto-api/")
                return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False

    def make_bucket(self) -> None:
        """Make its bucket."""
        storage = self._backends().default
        assert isinstance(storage, S3Storage)
        storage.make_bucket()

    def values(self) -> Values:
        """What reads the values that rows refer to."""
        return Values(self._backends())

    def _backends(self) -> Backends:
        return Backends.of(Settings(storage_backends=(self.entry,)))
