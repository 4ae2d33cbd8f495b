"""Real worker processes for tests: a database, a broker, workers on them, and a look at what they did.

Handlers note every call in a file (`flows/apps/notes.py`), so that a test need not believe rows alone.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, Unpack
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.domain.outbox import Outgoing
from pipeweave.orchestrator.domain.states import FINAL_RUN
from pipeweave.orchestrator.recovery import tick
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.registry.task_rows import queue_name
from pipeweave.orchestrator.runs import standalone_tasks, triggering
from pipeweave.orchestrator.runs.standalone_tasks import Queued, QueueRequest
from pipeweave.orchestrator.runs.triggering import CreatedRun, StartRequest
from pipeweave.orchestrator.store.database import Database
from pipeweave.settings import Settings
from pipeweave.spec.document import parse_spec
from pipeweave.up.postgres import Postgres
from support.run_driver import TriggerOptions
from support.servers import STOP_DEADLINE_S, WAIT_DEADLINE_S, new_database, wait_until

APPS = Path(__file__).parents[1] / "flows" / "apps"

# Of every stack: dispatches to HTTP workers are signed with it.
SECRET_KEY = "5e" * 32

_numbers = itertools.count(1)

_FINAL_RUN = tuple(status.value for status in FINAL_RUN)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a handler, as the handler itself wrote it down. Times in seconds of one steady clock."""

    run_id: str
    step_id: str | None
    map_index: int | None
    began: float
    ended: float
    pid: int
    seen: Any = None


@dataclass(slots=True)
class LiveStack:
    """One database and one broker with the processes that work on them.

    Args:
        settings: of this stack; its tenant is the stack's own.
        deployment: the stack as this process sees it.
        folder: where logs, data and the file of calls lie.
        processes: what was started and has not ended yet.
        variables: further variables of the environment of what is started.
    """

    settings: Settings
    deployment: Deployment
    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)

    # --- processes ----------------------------------------------------------------------------------------

    def start_worker(
        self,
        app: str,
        *options: str,
        concurrency: int = 2,
        tenant: str | None = None,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> int:
        """Start a worker and wait until it lives.

        Args:
            app: the file of tasks in `flows/apps`; empty for none.
            options: further options of `pipeweave worker`.
            concurrency: how many children it has.
            tenant: by default the stack's.
            variables: of its environment, besides those that every process has.

        Returns:
            Its process id.
        """
        name = f"w{next(_numbers)}"
        arguments = [
            "worker",
            *(("--app", str(APPS / app)) if app else ()),
            "--name",
            name,
            "--concurrency",
            str(concurrency),
            *options,
        ]
        process = self._start(name, arguments, tenant or self.settings.tenant, variables)

        def lives() -> bool:
            assert process.poll() is None, self.logs()
            return name in [row.name.partition("@")[0] for row in self.rows(_ALIVE)]

        wait_until(lives, WAIT_DEADLINE_S, f"worker {name} did not start")
        return process.pid

    def start_http_worker(self, app: str, service: str, orchestrator_url: str, port: int) -> int:
        """Start an HTTP worker with the tasks of a file in `flows/apps`, and wait until it is registered; its
        process id.
        """
        arguments = [
            "http-worker",
            *("--app", str(APPS / app), "--service", service, "--host", "127.0.0.1", "--port", str(port)),
            *("--base-url", f"http://127.0.0.1:{port}", "--url", orchestrator_url),
        ]
        began = self.rows("SELECT clock_timestamp() AS now")[0].now
        process = self._start(f"http{next(_numbers)}", arguments, self.settings.tenant, {})

        def is_there() -> bool:
            assert process.poll() is None, self.logs()
            return bool(self.rows(_INSTANCE, url=f"http://127.0.0.1:{port}", began=began))

        wait_until(is_there, WAIT_DEADLINE_S, f"the HTTP worker {service} did not register")
        return process.pid

    def start_beat(
        self, variables: Mapping[str, str] = MappingProxyType({}), options: Sequence[str] = ()
    ) -> int:
        """Start a beat; its process id. `variables` and `options` as of a worker."""
        command = ["beat", *options]
        return self._start(f"beat{next(_numbers)}", command, self.settings.tenant, variables).pid

    def has_beat(self) -> bool:
        """Whether a beat runs."""
        return any(_is_beat(process) and process.poll() is None for process in self.processes)

    def _start(
        self, name: str, arguments: list[str], tenant: str, variables: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        environment = {
            **variables,
            "PATH": os.environ["PATH"],
            "PIPEWEAVE_SECRET_KEY": self.settings.secret_key or "",
            "DISPATCH_NETWORKS": ",".join(self.settings.dispatch_networks),
            "DATABASE_URL": self.settings.database_url or "",
            "BROKER_URL": self.settings.broker_url or "",
            "PIPEWEAVE_TENANT": tenant,
            "PIPEWEAVE_DATA_DIR": self.settings.data_dir,
            "MAX_TASKS_PER_CHILD": str(self.settings.max_tasks_per_child),
            "STORAGE_BACKENDS": json.dumps(self.settings.storage_backends),
            "PIPEWEAVE_TEST_CALLS": str(self.folder / "calls.jsonl"),
            **self.variables,
        }
        with (self.folder / f"{name}.log").open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "pipeweave.cli", *arguments],
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def stop(self, pid: int) -> None:
        """Stop a process as an operator would, its whole group when it does not obey."""
        process = next(each for each in self.processes if each.pid == pid)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_DEADLINE_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.processes.remove(process)

    def ended(self, pid: int, deadline_s: float = STOP_DEADLINE_S) -> int:
        """Wait until a process that was told to stop ended; its exit code."""
        process = next(each for each in self.processes if each.pid == pid)
        code = process.wait(deadline_s)
        self.processes.remove(process)
        return code

    def kill(self, pid: int) -> None:
        """Kill a process and its children at once."""
        process = next(each for each in self.processes if each.pid == pid)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self.processes.remove(process)

    def reset(self) -> None:
        """Leave one beat alone: kill all other processes, cancel open runs, drop messages and logs."""
        beats = [process for process in self.processes if _is_beat(process) and process.poll() is None]
        for process in [process for process in self.processes if process not in beats[:1]]:
            self.kill(process.pid)
        for row in self.rows("SELECT id FROM runs WHERE finished_at IS NULL"):
            with suppress(PipeWeaveError):
                self.cancel(row.id)
        self.wipe_broker()
        for log in self.folder.glob("*.log"):
            log.write_bytes(b"")

    def close(self) -> None:
        """Kill every process and close the connections."""
        for process in self.processes[:]:
            self.kill(process.pid)
        self.deployment.close()

    def logs(self) -> str:
        """What all processes said last."""
        return "\n".join(f"--- {path.name}\n{path.read_text()[-4000:]}" for path in self.folder.glob("*.log"))

    # --- what tests do ------------------------------------------------------------------------------------

    def store(self, document: Mapping[str, Any], *, tenant: str | None = None) -> int:
        """Store a pipeline; its version."""
        with self.deployment.database.transaction() as tx:
            spec = parse_spec(document)
            return pipelines.store(tx, tenant or self.settings.tenant, spec, source="api").version

    def trigger(self, pipeline_id: str, input: Any = None, **options: Unpack[TriggerOptions]) -> UUID:
        """Trigger a run; its id."""
        return self.create(pipeline_id, input, **options).id

    def create(self, pipeline_id: str, input: Any = None, **options: Unpack[TriggerOptions]) -> CreatedRun:
        """Trigger a run; what triggering it answered."""
        return self.deployment.database.run(
            lambda tx: triggering.trigger(
                tx, self.deployment.values, self.settings.tenant, StartRequest(pipeline_id, input, **options)
            )
        )

    def enqueue(self, *requests: QueueRequest) -> list[Queued]:
        """Queue standalone tasks."""
        return self.deployment.database.run(
            lambda tx: standalone_tasks.enqueue(tx, self.deployment.values, self.settings.tenant, requests)
        )

    def cancel(self, run_id: UUID, reason: str | None = None) -> None:
        """Cancel a run."""
        self.deployment.database.run(
            lambda tx: triggering.cancel(tx, self.settings.tenant, run_id, reason=reason)
        )

    def tick(self, ahead: timedelta = timedelta()) -> tick.Ticked:
        """Run one tick here, as beat would, this far in the future: what is fresh now is late then."""
        later = Database(
            self.deployment.database.url,
            pool_size=0,
            sender=self.deployment.publisher.publish,
            react=reactions_to,
            now=lambda: datetime.now(UTC) + ahead,
        )
        return tick.run_once(replace(self.deployment, database=later))

    def trigger_unsent(self, pipeline_id: str, input: Any = None) -> UUID:
        """Trigger a run as a process does that dies between the commit and its messages."""
        database = Database(self.deployment.database.url, pool_size=0)
        with database.transaction() as tx:
            return triggering.trigger(
                tx, self.deployment.values, self.settings.tenant, StartRequest(pipeline_id, input)
            ).id

    def wipe_broker(self) -> None:
        """Lose everything the broker holds."""
        self.redis.flushdb()

    def forget_chords(self, run_id: UUID) -> int:
        """Lose the counters of a run's chords, but no message; how many keys there were."""
        keys = list(self.redis.scan_iter(f"*{run_id.hex}*"))
        return int(self.redis.delete(*keys)) if keys else 0

    def lose_parts(self, run_id: UUID) -> int:
        """Let each chord of a run wait for a part that never comes; how many chords there were."""
        sizes = list(self.redis.scan_iter(f"*{run_id.hex}*.s"))
        for size in sizes:
            self.redis.incr(size)
        return len(sizes)

    def double_messages(self) -> int:
        """Put every message that waits in the queue there once more; how many there were."""
        count = 0
        for key in self.redis.scan_iter(f"{self.queue()}*"):
            waiting = self.redis.lrange(key, 0, -1)
            count += len(waiting)
            self.redis.lpush(key, *reversed(waiting))
        return count

    @property
    def redis(self) -> Any:
        """A client of the broker."""
        backend: Any = self.deployment.publisher.app.backend
        return backend.client

    def send(self, *outgoing: Outgoing) -> None:
        """Publish messages that nobody asked for."""
        self.deployment.publisher.publish(outgoing)

    def queue(self, service: str = "python") -> str:
        """The name of a service's queue."""
        return queue_name(self.settings.tenant, service)

    def settle(self) -> None:
        """Wait until every message sent so far was consumed and what it led to is done."""
        self.until(lambda: self.deployment.publisher.depth(self.queue()) == 0, "messages are left")
        self.store({"id": "settle", "steps": [{"id": "only", "task": "noop"}]})
        for run_id in [self.trigger("settle") for _ in range(6)]:
            self.finished(run_id)

    def finished(self, run_id: UUID, deadline_s: float = WAIT_DEADLINE_S) -> Any:
        """Wait until a run is final; its row."""
        wait_until(lambda: self.run(run_id).status in _FINAL_RUN, deadline_s, f"run {run_id} did not end")
        return self.run(run_id)

    def ran(self, document: Mapping[str, Any], input: Any = None, **options: Unpack[TriggerOptions]) -> Any:
        """Store a pipeline, run it to its end; the run's row."""
        self.store(document)
        return self.finished(self.trigger(str(document["id"]), input, **options))

    def until(self, is_so: Callable[[], bool], what: str, deadline_s: float = WAIT_DEADLINE_S) -> None:
        """Wait until a condition holds; `what` says what is wrong when it does not."""
        wait_until(is_so, deadline_s, what)

    # --- what was done ------------------------------------------------------------------------------------

    def rows(self, statement: str, **parameters: Any) -> list[Any]:
        """The rows a SELECT gives."""
        with self.deployment.database.transaction() as tx:
            return list(tx.execute(statement, parameters).all())

    def run(self, run_id: UUID) -> Any:
        """The row of a run."""
        return self.rows("SELECT * FROM runs WHERE id = :id", id=run_id)[0]

    def task_runs(self, run_id: UUID) -> list[Any]:
        """The task runs of a run in the order of their ordinals."""
        return self.rows("SELECT * FROM task_runs WHERE run_id = :id ORDER BY id", id=run_id)

    def steps(self, run_id: UUID) -> dict[str, Any]:
        """The task runs of a run by step id, items of maps left out."""
        return {row.step_id: row for row in self.task_runs(run_id) if row.kind != "item"}

    def items(self, run_id: UUID, step_id: str) -> list[Any]:
        """The task runs of a map's items in order."""
        return [row for row in self.task_runs(run_id) if row.kind == "item" and row.step_id == step_id]

    def statuses(self, run_id: UUID) -> dict[str, str]:
        """Status by step id."""
        return {step_id: row.status for step_id, row in self.steps(run_id).items()}

    def attempts(self, run_id: UUID) -> list[Any]:
        """The attempts of a run that did not complete, by task run and number."""
        return self.rows("SELECT * FROM attempts WHERE run_id = :id ORDER BY task_run_id, number", id=run_id)

    def dead_letters(self, run_id: UUID) -> list[Any]:
        """The dead letters of a run by task run."""
        return self.rows("SELECT * FROM dead_letters WHERE run_id = :id ORDER BY task_run_id", id=run_id)

    def output(self, task_run: Any) -> Any:
        """A task run's output, from its row or from storage."""
        return self.deployment.values.load(task_run.output, task_run.output_path)

    def calls(self, run_id: UUID) -> list[Call]:
        """The calls of a run's handlers in the order of their ends."""
        shown = ids.show(ids.RUN, run_id)
        return [Call(**json.loads(line)) for line in self._call_lines() if shown in line]

    def every_call(self) -> list[Call]:
        """The calls of all handlers in the order of their ends."""
        return [Call(**json.loads(line)) for line in self._call_lines()]

    def _call_lines(self) -> list[str]:
        path = self.folder / "calls.jsonl"
        return path.read_text().splitlines() if path.exists() else []

    def called(self, run_id: UUID) -> Counter[str | None]:
        """How often the handlers of each step were called."""
        return Counter(call.step_id for call in self.calls(run_id))


_INSTANCE = "SELECT 1 FROM service_instances WHERE base_url = :url AND last_seen_at >= :began"
_ALIVE = "SELECT name FROM workers WHERE stopped_at IS NULL"


# What the fixture `make_stack` is: (folder, backends=()) -> a stack without processes, for a block.
StackMaker = Callable[..., AbstractContextManager[LiveStack]]


def _is_beat(process: subprocess.Popen[bytes]) -> bool:
    return isinstance(process.args, list) and process.args[-1] == "beat"


@contextmanager
def new_live_stack(
    postgres: Postgres,
    template: str,
    broker_url: str,
    folder: Path,
    backends: tuple[dict[str, Any], ...] = (),
) -> Iterator[LiveStack]:
    """A stack with an empty database and no process yet; those that it starts are killed at the end.

    Args:
        postgres: the server that gets the database.
        template: the name of a migrated database to copy.
        broker_url: an empty database of a Valkey.
        folder: where data, logs and the file of calls go.
        backends: storage backends as in the setting; none takes the folder.
    """
    number = next(_numbers)
    with new_database(postgres, f"stack_{number}", template) as database_url:
        settings = Settings(
            database_url=database_url,
            broker_url=broker_url,
            tenant=f"stack-{number}",
            data_dir=str(folder / "data"),
            storage_backends=backends,
            secret_key=SECRET_KEY,
            dispatch_networks=("loopback",),
        )
        stack = LiveStack(settings, Deployment.open(settings, pool_size=2), folder)
        try:
            yield stack
        finally:
            stack.close()
