"""Start a real stack for the fault test: PostgreSQL, Valkey and an object store, one API, two beats, two
workers of two teams with different code, and two instances of an HTTP service.
"""

from __future__ import annotations

import http.client
import json
import secrets
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg2
from redis import Redis

from chaos.catalogue import DEPLOYED, TEAMS
from chaos.databases import NAMES, Databases
from chaos.lines import Lines
from chaos.listener import Listener
from chaos.meddler import Meddler
from chaos.notes import PARTS, VARIABLE
from chaos.object_store import ObjectStore
from chaos.processes import Process, Supervisor
from chaos.proxy import Proxy
from chaos.sentinels import Broker, Sentinel
from chaos.shifted_clock import COMPILER, shifted
from chaos.waiting import waited
from chaos.waits import elsewhere
from chaos.waits.elsewhere import Elsewhere
from pipeweave.settings import environment
from pipeweave.up import valkey
from pipeweave.up.launch import Launch
from pipeweave.up.ports import LOOPBACK, free_port
from pipeweave.up.postgres import Postgres
from pipeweave.up.valkey import Valkey

ROOT = Path(__file__).parents[1]
TENANT = "default"
QUEUE = f"pipeweave.{TENANT}.python"
CONCURRENCY = {"worker-1": 2, "worker-2": 3}
# The HTTP service, and its instances.
SERVICE, INSTANCES = "web", ("service-1", "service-2")
# Attempts that an instance works at.
AT_ONCE = 8
# Messages that a child works off before another one takes its place.
MESSAGES_PER_CHILD = 50
# The grace period of a stopping worker (s): shorter than the slow tasks.
GRACE_S = 2
START_S = 60.0
# How far (s) the clocks of processes are ahead of PostgreSQL's.
CLOCKS_AHEAD_S = {"worker-1": 660, "worker-2": -660, "beat-2": 420, "api": -300}
ANSWER_S = 10.0

# Variables that a program needs; the user's own settings must not change the test.
_PLAIN = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")


class NotUp(Exception):
    """A part of the stack did not become ready, so nothing was tested."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the API; `status` is 0 if there was none."""

    status: int
    body: Any


@dataclass(slots=True)
class Stack:
    """The servers and processes of a trial.

    Args:
        folder: the folder of all files.
        processes: by name: `worker-1`, `worker-2`, `beat-1`, `beat-2`, `api`, `service-1`, `service-2`,
            `postgres`, perhaps `postgres-standby`, `storage`, and those of the broker: `valkey`, or
            `valkey-1`, `valkey-2`, `sentinel-1` to 3.
        meddlers: by the name of an instance: what stands before it, and before the API for it.
        lines: by the name of a process: its connections to the servers.
        deployed: by the name of a worker: the part of its code that deploys replace.
        listener: what hooks call.
        elsewhere: the other system of calls that suspend themselves.
        odd_rows: the rows of enqueued runs that nobody can read.
    """

    folder: Path
    databases: Databases
    broker: Broker
    store: ObjectStore
    port: int
    supervisor: Supervisor
    processes: dict[str, Process] = field(default_factory=dict)
    lines: dict[str, Lines] = field(default_factory=dict)
    meddlers: dict[str, tuple[Meddler, Meddler]] = field(default_factory=dict)
    deployed: dict[str, str] = field(default_factory=lambda: dict(DEPLOYED))
    listener: Listener = field(default_factory=Listener)
    elsewhere: Elsewhere = field(default_factory=Elsewhere)
    odd_rows: list[UUID] = field(default_factory=list)
    token: str = ""
    # With which the HTTP service registers.
    worker_token: str = ""
    secret_key: str = field(default_factory=lambda: secrets.token_hex(32))

    @property
    def database(self) -> Postgres:
        """The PostgreSQL that takes writes now."""
        return self.databases.primary

    @property
    def notes(self) -> Path:
        return self.folder / "notes.jsonl"

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        once: str | None = None,
        port: int | None = None,
    ) -> Answer:
        """Send one request, without repeats.

        Args:
            token: of whom; None for the test's own, empty for none.
            once: the Idempotency-Key.
            port: of what stands before the API; None for the API itself.
        """
        bearer = self.token if token is None else token
        headers = {"Authorization": f"Bearer {bearer}", "X-Tenant": TENANT} if bearer else {}
        headers |= {} if once is None else {"Idempotency-Key": once}
        content = None if body is None else json.dumps(body).encode()
        if content is not None:
            headers["Content-Type"] = "application/json"
        try:
            with closing(_connection(port or self.port)) as connection:
                connection.request(method, path, content, headers)
                answer = connection.getresponse()
                return Answer(answer.status, json.loads(answer.read()))
        except (OSError, http.client.HTTPException, ValueError):
            return Answer(0, None)

    def rows(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run a statement of the test and return its rows.

        Raises:
            psycopg2.Error: PostgreSQL is away, or refuses.
        """
        connection = psycopg2.connect(self.database.url, connect_timeout=5)
        try:
            with connection, connection.cursor() as cursor:
                cursor.execute(statement, parameters)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def redis(self) -> Redis:
        """A connection to the broker, to its primary of this moment.

        Raises:
            NoPrimary: the sentinels do not agree on one.
        """
        return self.broker.redis()

    @property
    def servers(self) -> frozenset[str]:
        """The names of the processes that are not of the product."""
        return frozenset({*NAMES, "storage", *self.broker.servers, *self.broker.sentinels})

    def parts(self, worker: str) -> tuple[str, ...]:
        """The parts of the code that a worker loads when it starts."""
        return *TEAMS[worker], self.deployed[worker]

    def servers_answer(self) -> bool:
        return self.database.is_ready() and self.broker.is_ready()

    def wait_for_servers(self, seconds: float) -> bool:
        """Wait this many seconds for both servers; True if both answer."""
        return waited(self.servers_answer, seconds)


def _connection(port: int) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(LOOPBACK, port, timeout=ANSWER_S)


@contextmanager
def stack(folder: Path, *, broker: str = "alone", has_standby: bool = False) -> Iterator[Stack]:
    """Start the stack in a folder for the block, and stop everything at the end.

    Args:
        broker: one of plan.BROKERS.
        has_standby: whether PostgreSQL has a standby that can be promoted.

    Raises:
        NotUp: a part of the stack did not become ready.
    """
    (logs := folder / "logs").mkdir(parents=True, exist_ok=True)
    databases = Databases(folder, has_standby=has_standby)
    behind = Broker.behind_sentinels if broker == "sentinels" else Broker.alone
    up = Stack(folder, databases, behind(folder), ObjectStore(folder), free_port(), Supervisor(logs))
    up.broker.prepare()
    up.supervisor.start()
    try:
        _start_servers(up)
        _start_processes(up)
        yield up
    finally:
        up.databases.close()
        up.supervisor.stop_all()
        for each in up.lines.values():
            each.close()
        up.listener.close()
        up.elsewhere.close()
        up.store.proxy.close()
        for pair in up.meddlers.values():
            for meddler in pair:
                meddler.close()


def _start_servers(up: Stack) -> None:
    log = up.folder / "logs"
    up.processes.update(up.databases.start(up.supervisor, log))
    up.processes["storage"] = up.supervisor.keep(Process("storage", up.store.launch, log / "storage.log"))
    _start_broker(up, up.broker.servers)
    if not waited(up.broker.servers_answer, START_S):
        raise NotUp("the broker did not get ready")
    up.broker.introduce()
    _start_broker(up, up.broker.sentinels)
    if not (up.wait_for_servers(START_S) and waited(up.store.is_ready, START_S)):
        raise NotUp("the servers did not get ready")
    up.store.make_bucket()


def _start_broker(up: Stack, several: Mapping[str, Valkey | Sentinel]) -> None:
    for name, each in several.items():
        kept = Process(name, each.launch, up.folder / "logs" / f"{name}.log", valkey.STOP_SIGNAL)
        up.processes[name] = up.supervisor.keep(kept)


def _start_processes(up: Stack) -> None:
    from pipeweave.orchestrator.deployment import migrate

    migrate.upgrade(up.database.url)
    up.token, up.worker_token = (make_token(up, each, each) for each in ("write", "worker"))
    for name in ("beat-1", "beat-2", *CONCURRENCY, "api"):
        port = up.broker.port
        up.lines[name] = Lines(up.databases.lines(), None if port is None else Proxy(port))
        kept = Process(name, partial(_launch, up, name), up.folder / "logs" / f"{name}.log")
        up.processes[name] = up.supervisor.keep(kept)
    for name in INSTANCES:
        up.meddlers[name] = Meddler(free_port()), Meddler(up.port)
        kept = Process(name, partial(_launch_service, up, name), up.folder / "logs" / f"{name}.log")
        up.processes[name] = up.supervisor.keep(kept)
    if not waited(lambda: _is_ready(up), START_S):
        raise NotUp("API, workers and services did not get ready")


def _launch_service(up: Stack, name: str) -> Launch:
    """How to start an instance of the HTTP service."""
    dispatches, reports = up.meddlers[name]
    variables = {
        **{name: value for name, value in environment().items() if name in _PLAIN},
        "PIPEWEAVE_SECRET_KEY": up.secret_key,
        VARIABLE: str(up.notes),
        PARTS: "remote",
    }
    arguments = (
        *("http-worker", "--app", "chaos.tasks.remote", "--service", SERVICE, "--host", LOOPBACK),
        *("--port", str(dispatches.target), "--base-url", f"http://{LOOPBACK}:{dispatches.port}"),
        *("--url", f"http://{LOOPBACK}:{reports.port}/w/{TENANT}/{up.worker_token}"),
        *("--concurrency", str(AT_ONCE), "--grace", str(GRACE_S)),
    )
    return Launch((sys.executable, "-m", "pipeweave.cli", *arguments), variables, cwd=ROOT)


def _launch(up: Stack, name: str) -> Launch:
    """How to start a process of the product, with the code that it is to have now."""
    variables = {
        **{name: value for name, value in environment().items() if name in _PLAIN},
        "DATABASE_URL": up.databases.url_through(up.lines[name].postgres),
        "BROKER_URL": _broker_url(up, name),
        "PIPEWEAVE_SECRET_KEY": up.secret_key,
        "PIPEWEAVE_ORCHESTRATOR_URL": f"http://{LOOPBACK}:{up.port}",
        "DISPATCH_NETWORKS": "loopback",
        "STORAGE_BACKENDS": json.dumps([up.store.entry]),
        "PIPEWEAVE_DATA_DIR": str(up.folder / "data"),
        "MAX_TASKS_PER_CHILD": str(MESSAGES_PER_CHILD),
        VARIABLE: str(up.notes),
        elsewhere.VARIABLE: up.elsewhere.url,
        **_wrong_clock(up.folder, name),
    }
    arguments: tuple[str, ...] = (name.partition("-")[0],)
    if name == "api":
        arguments += ("--port", str(up.port))
    elif name in CONCURRENCY:
        parts = up.parts(name)
        variables[PARTS] = ",".join(parts)
        arguments += tuple(text for each in parts for text in ("--app", f"chaos.tasks.{each}"))
        arguments += ("--grace", str(GRACE_S), "--name", name, "--concurrency", str(CONCURRENCY[name]))
    return Launch((sys.executable, "-m", "pipeweave.cli", *arguments), variables, cwd=ROOT)


def _broker_url(up: Stack, name: str) -> str:
    """The broker URL of a process: through its proxy, unless it asks sentinels."""
    proxy, port = up.lines[name].broker, up.broker.port
    return up.broker.url if proxy is None or port is None else _through(up.broker.url, port, proxy)


def _through(url: str, port: int, proxy: Proxy) -> str:
    """The same URL, through a proxy."""
    return url.replace(f":{port}/", f":{proxy.port}/")


def _wrong_clock(folder: Path, name: str) -> dict[str, str]:
    """What gives a process a wrong clock: its variables; none where nothing can be compiled."""
    if COMPILER is None or name not in CLOCKS_AHEAD_S:
        return {}
    return shifted(folder, CLOCKS_AHEAD_S[name])


def _is_ready(up: Stack) -> bool:
    alive = up.rows("SELECT count(*) FROM workers WHERE stopped_at IS NULL")[0][0]
    instances = up.rows("SELECT count(*) FROM service_instances")[0][0]
    is_complete = alive >= len(CONCURRENCY) and instances >= len(INSTANCES)
    return is_complete and up.ask("GET", "/health").status == 200


def make_token(up: Stack, name: str, scope: str, groups: Collection[str] = ()) -> str:
    """Make an access token.

    Args:
        scope: `read`, `approve`, `write` or `worker`.
        groups: of people, for which it may decide approvals.
    """
    from pipeweave.orchestrator.security import access_tokens
    from pipeweave.orchestrator.store import Database

    with Database(up.database.url, pool_size=0).transaction() as tx:
        scopes = [f"orchestrator:{scope}"]
        return access_tokens.create_token(tx, name=name, tenants=[TENANT], scopes=scopes, groups=groups)
