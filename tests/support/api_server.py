"""The API as a real process, for tests that need one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import urllib3

from pipeweave.settings import Settings
from pipeweave.up.ports import free_port
from support.servers import wait_until

STOP_DEADLINE_S = 60.0


@dataclass
class Server:
    """A running API process."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return "127.0.0.1", int(self.url.rpartition(":")[2])


@contextmanager
def running_api(settings: Settings, folder: Path, *options: str) -> Iterator[Server]:
    """`pipeweave api` on a free port, ready; stopped with a TERM at the end."""
    port = free_port()
    environment = os.environ | {
        "DATABASE_URL": str(settings.database_url),
        "BROKER_URL": settings.broker_url or "",
        "PIPEWEAVE_DATA_DIR": settings.data_dir,
        "DISPATCH_NETWORKS": ",".join(settings.dispatch_networks),
        "PIPEWEAVE_SECRET_KEY": settings.secret_key or "",
        "MODE": settings.mode,
        "MAX_CONCURRENCY": str(settings.max_concurrency),
    }
    argv = [sys.executable, "-m", "pipeweave.cli", "api", "--port", str(port), *options]
    log = folder / "api.log"
    with log.open("wb") as output:
        process = subprocess.Popen(argv, env=environment, stdout=output, stderr=subprocess.STDOUT)
    server = Server(f"http://127.0.0.1:{port}", process, log)
    try:
        wait_until(lambda: process.poll() is not None or _is_healthy(server.url), what=str(log))
        assert process.poll() is None, log.read_text()
        yield server
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _is_healthy(url: str) -> bool:
    try:
        return urllib3.request("GET", f"{url}/health", retries=False, timeout=10).status == 200
    except urllib3.exceptions.HTTPError:
        return False
