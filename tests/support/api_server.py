"""The API as a real process, for tests that need one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import urllib3

from pipeweave.orchestrator.store.database import Database
from pipeweave.settings import Settings
from pipeweave.settings.oidc import roles_text
from pipeweave.up.ports import free_port
from support.servers import wait_until

STOP_DEADLINE_S = 60.0


@dataclass
class Server:
    """An API process, and its successors after each restart.

    Args:
        launch: starts a process.
    """

    url: str
    launch: Callable[[], subprocess.Popen[bytes]]
    log: Path

    def __post_init__(self) -> None:
        self.process = self.launch()

    def kill(self) -> None:
        """Kill it and its children at once."""
        self.signal(signal.SIGKILL)
        self.process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it and its children."""
        family = [self.process.pid, *(each.pid for each in psutil.Process(self.process.pid).children())]
        for pid in family:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def start_again(self) -> None:
        """Start it on the same port, and wait until it is ready."""
        self.process = self.launch()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        wait_until(lambda: self.process.poll() is not None or _is_healthy(self.url), what=str(self.log))
        assert self.process.poll() is None, self.log.read_text()

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return "127.0.0.1", int(self.url.rpartition(":")[2])


@contextmanager
def running_api(settings: Settings, folder: Path, *options: str) -> Iterator[Server]:
    """`pipeweave api` on a free port, ready; stopped with a TERM at the end."""
    _forget_settings(str(settings.database_url))
    port = free_port()
    environment = os.environ | {
        "DATABASE_URL": str(settings.database_url),
        "BROKER_URL": settings.broker_url or "",
        "PIPEWEAVE_DATA_DIR": settings.data_dir,
        "DISPATCH_NETWORKS": ",".join(settings.dispatch_networks),
        "PIPEWEAVE_SECRET_KEY": settings.secret_key or "",
        "MODE": settings.mode,
        "MAX_CONCURRENCY": str(settings.max_concurrency),
        "STREAM_LIMIT": str(settings.stream_limit),
        "STORAGE_BACKENDS": json.dumps(settings.storage_backends),
        "OIDC_ISSUER": settings.oidc_issuer or "",
        "OIDC_CLIENT_ID": settings.oidc_client_id or "",
        "OIDC_CLIENT_SECRET": settings.oidc_client_secret or "",
        "OIDC_ROLES": roles_text(settings.oidc_roles) if settings.oidc_roles else "",
    }
    argv = [sys.executable, "-m", "pipeweave.cli", "api", "--port", str(port), *options]
    log = folder / "api.log"

    def launch() -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            return subprocess.Popen(argv, env=environment, stdout=output, stderr=subprocess.STDOUT)

    server = Server(f"http://127.0.0.1:{port}", launch, log)
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.process.send_signal(signal.SIGTERM)
        try:
            server.process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            server.kill()


def _forget_settings(database_url: str) -> None:
    """Forget what processes noted before: files of tests share a database, and rows of workers look alive."""
    database = Database(database_url, pool_size=0)
    with database.transaction() as tx:
        tx.execute("DELETE FROM leases WHERE name = 'settings'")
    database.dispose()


def _is_healthy(url: str) -> bool:
    try:
        return urllib3.request("GET", f"{url}/health", retries=False, timeout=10).status == 200
    except urllib3.exceptions.HTTPError:
        return False
