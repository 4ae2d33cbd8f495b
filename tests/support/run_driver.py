"""Driving a run by its verbs, as a worker would, without any worker: each move in a transaction the test
holds.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.call_outcome import CallOutcome
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.domain.outbox import Outgoing, Released
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import Completion, Kept, TaskRun
from pipeweave.orchestrator.engine import joins
from pipeweave.orchestrator.engine.turn import Turn
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.runs.triggering import Trigger
from pipeweave.orchestrator.state import claiming, run_headers
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.spec.document import parse_spec
from support.factories import a_task, register

_tenants = itertools.count(1)

# A failure that is final at once.
PERMANENT = Failure("BOOM", "it broke", "ValueError", False, "Traceback …")
TRANSIENT = Failure("WEAK", "it broke for now", "OSError", True, "Traceback …")

# The tasks of every driven tenant; `limited` runs twice at a time.
TASKS = ("noop", a_task("limited", concurrency=2), a_task("single", concurrency=1))


@dataclass(slots=True)
class Clock:
    """A clock the test moves on."""

    ahead: timedelta = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@dataclass(slots=True)
class RunDriver:
    """One tenant with its tasks, and the messages its transactions sent."""

    database: Database
    tenant: str = field(default_factory=lambda: f"driven-{next(_tenants)}")
    sent: list[Outgoing] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.database.sender = self.sent.extend
        with self.database.transaction() as tx:
            register(tx, self.tenant, *TASKS)

    def store(self, needs: Mapping[str, Sequence[str]], *, id: str = "driven", **members: Any) -> int:
        """Store a pipeline of no-op steps; its version. `tasks` and `maps` say what else a step is."""
        tasks, maps = members.pop("tasks", {}), members.pop("maps", {})
        steps = [
            {"id": step, "task": tasks.get(step, "noop"), "needs": list(before)}
            | ({"map": {"over": maps[step]}} if step in maps else {})
            for step, before in needs.items()
        ]
        with self.database.transaction() as tx:
            spec = parse_spec({"id": id, "steps": steps, **members})
            return pipelines.store(tx, self.tenant, spec, source="api").version

    def trigger(self, id: str = "driven", input: Any = None, **wish: Any) -> UUID:
        """Trigger a run of a stored pipeline."""
        with self.database.transaction() as tx:
            return triggering.trigger(tx, self.tenant, Trigger(id, input, **wish)).id

    def begin(self, needs: Mapping[str, Sequence[str]], input: Any = None, **members: Any) -> UUID:
        """Store a pipeline and trigger a run of it."""
        self.store(needs, **members)
        return self.trigger(input=input)

    # --- moves --------------------------------------------------------------------------------------------

    def finish(self, run_id: UUID, *steps: str, **how: Any) -> None:
        """Start and end these steps, each in a transaction of its own."""
        for step in steps:
            with self.database.transaction() as tx:
                finish_step(tx, run_id, step, **how)

    def check(self, run_id: UUID, join: int) -> None:
        """What a join message does."""
        joins.check(self.database, self.database.values_or_raise, run_id, join)

    # --- looking ------------------------------------------------------------------------------------------

    def rows(self, statement: str, **parameters: Any) -> list[Any]:
        with self.database.transaction() as tx:
            return list(tx.execute(statement, parameters).all())

    def run(self, run_id: UUID) -> Any:
        return self.rows("SELECT * FROM runs WHERE id = :id", id=run_id)[0]

    def task_runs(self, run_id: UUID) -> list[Any]:
        return self.rows("SELECT * FROM task_runs WHERE run_id = :id ORDER BY id", id=run_id)

    def statuses(self, run_id: UUID) -> dict[str, str]:
        """Status by step, items left out."""
        return {row.step_id: row.status for row in self.task_runs(run_id) if row.kind != "item"}

    def events(self, run_id: UUID, type_: str) -> list[Any]:
        statement = "SELECT * FROM events WHERE run_id = :id AND type = :type ORDER BY seq"
        return self.rows(statement, id=run_id, type=type_)

    def released(self, run_id: UUID) -> list[int]:
        """The ordinals that messages were sent for."""
        return [each.ordinal for each in self.sent if isinstance(each, Released) and each.run_id == run_id]


def header(tx: Transaction, run_id: UUID) -> RunHeader:
    found = run_headers.load(tx, run_id)
    assert found is not None
    return found


def claim(tx: Transaction, run_id: UUID, ordinal: int, worker: str = "w1") -> TaskRun | None:
    """Start a task run for a worker; None when it is not to be had."""
    started = claiming.start(tx, run_id, [ordinal], 1, worker=worker)
    return started[0] if started else None


def finish_step(tx: Transaction, run_id: UUID, step: str, **how: Any) -> None:
    """Start and end a step."""
    run = header(tx, run_id)
    finish_task_run(tx, run_id, run.plan.ordinals[step], **how)


def finish_task_run(
    tx: Transaction,
    run_id: UUID,
    ordinal: int,
    *,
    output: Any = None,
    chosen: tuple[str, ...] | None = None,
    failure: Failure | None = None,
) -> None:
    """Start and end the task run of an ordinal."""
    started = claim(tx, run_id, ordinal)
    assert started is not None, f"{ordinal} cannot be started"
    settle(tx, started, output=output, chosen=chosen, failure=failure)


def settle(
    tx: Transaction,
    started: TaskRun,
    *,
    output: Any = None,
    chosen: tuple[str, ...] | None = None,
    failure: Failure | None = None,
) -> None:
    """End a started task run and go on with its run."""
    kept = output if isinstance(output, Kept) else tx.values.keep(output)
    ended: CallOutcome = Completion(started, kept, chosen)
    if failure is not None:
        ended = started, failure
    Turn(header(tx, started.run_id), [ended], started.queue, max_retry_delay_ms=None).store(tx)


def ordinals(run_id: UUID, rows: Sequence[Any]) -> list[int]:
    """The ordinals of rows of a run."""
    return [ids.ordinal_of(row.id) for row in rows]
