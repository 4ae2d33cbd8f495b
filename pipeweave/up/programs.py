"""Describe each process of the stack: how it is started, when it is ready, how it is stopped."""

from __future__ import annotations

import http.client
import os
import signal
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from pipeweave.up import environment, leftovers, postgres, valkey
from pipeweave.up.folder import DataFolder, Secrets
from pipeweave.up.launch import Launch
from pipeweave.up.options import UpOptions
from pipeweave.up.ports import LOOPBACK
from pipeweave.up.postgres import Postgres
from pipeweave.up.processes import ProcessSpec
from pipeweave.up.valkey import Valkey

# Stages are stopped from the highest to the lowest: at most 3 + 12 + 5 + 3 + 5 = 28 s in all.
_WATCHDOG, _POSTGRES, _VALKEY, _API, _WORKERS, _CLOCK = range(-1, 5)

FLOWER_USER = "pipeweave"
DISPATCHER = "dispatcher"
# A worker gets 12 s to stop. Its task runs get 8 s of it; the rest is for handing back unfinished task runs.
_CALLS_GRACE_S, _WORKER_GRACE_S = 8.0, 12.0
_HEALTH_TIMEOUT_S = 2.0
# -P: do not import a user's folder that has the name of one of our packages.
_PYTHON = (sys.executable, "-P", "-m")


class Programs:
    """Makes the ProcessSpec of each process of one stack."""

    def __init__(self, options: UpOptions, folder: DataFolder, secrets: Secrets) -> None:
        assert secrets.postgres_port and secrets.valkey_port
        self.postgres_server = Postgres(
            folder.root / "postgres",
            secrets.postgres_port,
            secrets.postgres_password,
            secrets.postgres_admin_password,
        )
        self.valkey_server = Valkey(folder.root / "valkey", secrets.valkey_port, secrets.valkey_password)
        self._options, self._folder, self._secrets = options, folder, secrets

    def watchdog(self) -> ProcessSpec:
        """The process that ends all others if the supervisor is killed."""
        script = str(Path(leftovers.__file__))
        files = (str(self._folder.processes), str(self._folder.connection))
        launch = Launch((sys.executable, "-I", "-S", script, *files), {"PATH": os.defpath})
        return ProcessSpec("watchdog", lambda: launch, stage=_WATCHDOG, is_watching_us=True)

    def postgres(self) -> ProcessSpec:
        server = self.postgres_server
        return ProcessSpec(
            "postgres",
            server.launch,
            server.is_ready,
            stage=_POSTGRES,
            stop_signal=postgres.STOP_SIGNAL,
            grace_s=5.0,
        )

    def valkey(self) -> ProcessSpec:
        server = self.valkey_server
        return ProcessSpec(
            "valkey", server.launch, server.is_ready, stage=_VALKEY, stop_signal=valkey.STOP_SIGNAL
        )

    def api(self) -> ProcessSpec:
        where = ("--host", self._options.host, "--port", str(self._options.port))
        launch = self._launch(("api", *where), environment.for_program(self._settings()))
        return ProcessSpec("api", lambda: launch, self._is_api_healthy, stage=_API, grace_s=5.0)

    def worker(self, number: int, is_alive: Callable[[int], bool]) -> ProcessSpec:
        """The worker with this number; `is_alive` is given, because it looks at the registered workers."""
        name = f"worker-{number}"
        apps = [part for app in self._options.apps for part in ("--app", app)]
        how = ("--concurrency", str(self._options.concurrency), "--service", "python", "--name", name)
        # The adapters that PipeWeave brings get no process of their own: it would cost something when idle.
        more = ("--adapters", "--grace", f"{_CALLS_GRACE_S:g}")
        launch = self._launch(("worker", *apps, *how, *more), environment.for_worker(self._settings()))
        return ProcessSpec(
            name,
            lambda: launch,
            is_pid_ready=is_alive,
            stage=_WORKERS,
            grace_s=_WORKER_GRACE_S,
            is_replaceable=True,
            about=", ".join(self._options.apps),
        )

    def dispatcher(self, is_alive: Callable[[int], bool]) -> ProcessSpec:
        """The process that dispatches to HTTP services where no worker runs; `is_alive` as of `worker`."""
        command = ("dispatcher", "--name", DISPATCHER)
        launch = self._launch(command, environment.for_program(self._settings()))
        return ProcessSpec(
            DISPATCHER,
            lambda: launch,
            is_pid_ready=is_alive,
            stage=_WORKERS,
            grace_s=_WORKER_GRACE_S,
            about="dispatches to HTTP workers",
        )

    def beat(self, is_ticking: Callable[[int], bool]) -> ProcessSpec:
        """The beat process; `is_ticking` is given, because it watches the ticks in the database."""
        launch = self._launch(("beat",), environment.for_program(self._settings()))
        return ProcessSpec("beat", lambda: launch, is_pid_ready=is_ticking, stage=_CLOCK)

    def flower(self) -> ProcessSpec | None:
        """Flower with a password; None if it is switched off or not installed."""
        if not self._options.has_flower or find_spec("flower") is None:
            return None
        # Flower reads its options from variables, which keeps the password off the command line.
        own = {
            "FLOWER_ADDRESS": LOOPBACK,
            "FLOWER_PORT": str(self._secrets.flower_port),
            "FLOWER_BASIC_AUTH": f"{FLOWER_USER}:{self._secrets.flower_password}",
            "FLOWER_ENABLE_EVENTS": "False",
        }
        argv = (*_PYTHON, "celery", "-A", "pipeweave.workers.app:app", "flower")
        launch = Launch(argv, environment.for_program({**self._settings(), **own}), cwd=self._folder.run)
        return ProcessSpec("flower", lambda: launch, stage=_CLOCK, stop_signal=signal.SIGINT)

    @property
    def flower_url(self) -> str:
        """Flower's URL on this machine."""
        return f"http://{LOOPBACK}:{self._secrets.flower_port}"

    def _launch(self, command: tuple[str, ...], variables: dict[str, str]) -> Launch:
        return Launch((*_PYTHON, "pipeweave.cli", *command), variables, cwd=Path.cwd())

    def _settings(self) -> dict[str, str]:
        return {
            "DATABASE_URL": self.postgres_server.url,
            "BROKER_URL": self.valkey_server.url,
            "PIPEWEAVE_SECRET_KEY": self._secrets.secret_key,
            "PIPEWEAVE_TENANT": self._options.tenant,
            "MODE": self._options.mode,
            "PIPEWEAVE_DATA_DIR": str(self._folder.root),
            "PIPEWEAVE_ORCHESTRATOR_URL": self._options.url,
            # `up` has read the file; a process that read it again would follow what `up` has decided against.
            "PIPEWEAVE_ENV_FILE": os.devnull,
            **environment.networks(),
        }

    def _is_api_healthy(self) -> bool:
        address = urlsplit(self._options.url)
        client = http.client.HTTPConnection(str(address.hostname), address.port, timeout=_HEALTH_TIMEOUT_S)
        try:
            client.request("GET", "/health")
            return client.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            client.close()
