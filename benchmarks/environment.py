"""Start the measured systems on this machine: PostgreSQL (durable), Valkey, PipeWeave, Celery twice."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.http_sender import HttpSender
from benchmarks.pipeweave_system import PipeWeaveSystem
from benchmarks.plain.systems import Plain, Tuned, Written
from benchmarks.processes import front, python, running
from benchmarks.statement_log import StatementLog
from benchmarks.systems import System
from pipeweave.settings import Settings
from pipeweave.up import postgres, valkey
from pipeweave.up.ports import free_port
from pipeweave.up.postgres import Postgres
from pipeweave.up.valkey import Valkey

CONCURRENCY = 2
# Each system has a database of the one Valkey.
_PIPEWEAVE, _WRITTEN, _TUNED = 0, 2, 4
_TENANT = "default"
# Python imports its sitecustomize.py by itself.
CALLED = Path(__file__).parent / "called"


@dataclass(frozen=True, slots=True)
class Environment:
    """The running systems and their servers.

    Args:
        systems: PipeWeave first, then Celery as written, then Celery tuned.
        pipeweave: PipeWeave, for the benchmarks of PipeWeave alone.
        settings: the settings of PipeWeave's processes.
        log: the log of PostgreSQL.
        servers: the process ids of PostgreSQL and the broker, by name.
        calls: the folder in which PipeWeave's processes count their calls of Python functions, if they do.
    """

    systems: tuple[System, ...]
    pipeweave: PipeWeaveSystem
    settings: Settings
    log: StatementLog
    servers: Mapping[str, int]
    calls: Path | None = None

    @property
    def processes(self) -> Mapping[str, int]:
        """The process ids of PipeWeave and the servers, by name."""
        return {**self.pipeweave.processes, **self.servers}

    @property
    def alone(self) -> Environment:
        """The same environment with PipeWeave as its only system."""
        return replace(self, systems=(self.pipeweave,))


@contextmanager
def environment(folder: Path, counts_calls: bool = False) -> Iterator[Environment]:
    """Start everything in a folder, and stop it at the end.

    Args:
        counts_calls: PipeWeave's processes count their calls of Python functions, which makes them slower.

    Raises:
        BenchmarkFailed: a process did not become ready.
        PipeWeaveError: a server or the schema could not be made.
    """
    (folder / "logs").mkdir(parents=True)
    calls = folder / "calls" if counts_calls else None
    if calls is not None:
        calls.mkdir()
    with ExitStack() as stack:
        database = Postgres(folder / "postgres", free_port(), secrets.token_hex(16), secrets.token_hex(16))
        database.prepare()
        postgres_log = folder / "logs" / "postgres.log"
        postgresql_id = stack.enter_context(
            running(database.launch(), postgres_log, database.is_ready, postgres.STOP_SIGNAL)
        )
        broker = Valkey(folder / "valkey", free_port(), secrets.token_hex(16))
        broker.prepare()
        log = folder / "logs" / "valkey.log"
        broker_id = stack.enter_context(running(broker.launch(), log, broker.is_ready, valkey.STOP_SIGNAL))
        pipeweave = stack.enter_context(_pipeweave(folder, database.url, broker.url_of(_PIPEWEAVE), calls))
        written = stack.enter_context(_plain(folder, Written, broker.url_of(_WRITTEN)))
        tuned = stack.enter_context(_plain(folder, Tuned, broker.url_of(_TUNED)))
        settings = Settings(
            database_url=database.url, broker_url=broker.url_of(_PIPEWEAVE), data_dir=str(folder / "data")
        )
        log_of = StatementLog(database.admin_url, postgres_log)
        servers = {"postgresql": postgresql_id, "broker": broker_id}
        yield Environment((pipeweave, written, tuned), pipeweave, settings, log_of, servers, calls)


@contextmanager
def _pipeweave(
    folder: Path, database_url: str, broker_url: str, calls: Path | None
) -> Iterator[PipeWeaveSystem]:
    """One API, one worker, one beat."""
    from pipeweave.orchestrator.deployment import migrate
    from pipeweave.orchestrator.registry import worker_processes

    migrate.upgrade(database_url)
    headers = {"Authorization": f"Bearer {_token(database_url)}", "X-Tenant": _TENANT}
    sender = HttpSender(port := free_port(), headers)
    variables = {
        "DATABASE_URL": database_url,
        "BROKER_URL": broker_url,
        "PIPEWEAVE_SECRET_KEY": secrets.token_hex(32),
        "PIPEWEAVE_DATA_DIR": str(folder / "data"),
        "DISPATCH_NETWORKS": "loopback",
        # One token opens a hundred streams and as many pages: half of a process.
        "STREAM_LIMIT": "200",
    }
    if calls is not None:
        variables |= {"PYTHONPATH": str(CALLED), "COUNTED_CALLS": str(calls)}
    tasks = ("--app", "benchmarks.tasks")
    commands: dict[str, tuple[tuple[str, ...], Callable[[], bool]]] = {
        "api": (("--port", str(port)), lambda: sender.answers("/health")),
        "worker": (
            (*tasks, "--concurrency", str(CONCURRENCY)),
            lambda: worker_processes.count_alive_at(database_url) > 0,
        ),
        "beat": ((), lambda: True),
    }
    with ExitStack() as stack:
        processes = {}
        for name, (arguments, is_ready) in commands.items():
            launch = python("pipeweave.cli", name, *arguments, variables=variables)
            log = folder / "logs" / f"{name}.log"
            processes[name] = stack.enter_context(running(launch, log, is_ready))
        yield stack.enter_context(closing(PipeWeaveSystem(sender, database_url, processes)))


def _token(database_url: str) -> str:
    from pipeweave.orchestrator.security import access_tokens
    from pipeweave.orchestrator.store import Database

    with Database(database_url, pool_size=0).transaction() as tx:
        return access_tokens.create_token(
            tx, name="benchmarks", tenants=[_TENANT], scopes=[access_tokens.WRITE]
        )


@contextmanager
def _plain(folder: Path, kind: type[Written] | type[Tuned], url: str) -> Iterator[Plain]:
    """One worker, and the HTTP front that only the benchmarks by HTTP use."""
    variant = "tuned" if kind.is_tuned else "written"
    variables = {"CELERY_BROKER_URL": url, "CELERY_RESULT_BACKEND": url}
    module = f"benchmarks.plain.{variant}"
    worker = python(
        *("celery", "-A", module, "worker", "--concurrency", str(CONCURRENCY)),
        *("--hostname", f"{variant}@%h", "--loglevel", "warning"),
        variables=variables,
    )
    sender = HttpSender(port := free_port())
    launch = front(port, f"benchmarks.plain.front:{variant}()", variables=variables)
    logs = folder / "logs"
    with ExitStack() as stack:
        processes = {
            "worker": stack.enter_context(running(worker, logs / f"{variant}.log", lambda: True)),
            "front": stack.enter_context(
                running(launch, logs / f"{variant}-front.log", lambda: sender.answers("/"))
            ),
        }
        yield stack.enter_context(closing(kind(url, sender, processes)))
