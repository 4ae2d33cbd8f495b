"""Driving a run by its verbs, as a worker would, without any worker: each move in a transaction the test
holds.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict, Unpack
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.call_outcome import CallOutcome
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.domain.outbox import Outgoing, Released
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import Completion, KeptValue, TaskRun
from pipeweave.orchestrator.domain.triggered_by import TriggeredBy
from pipeweave.orchestrator.engine import joins
from pipeweave.orchestrator.engine.advance import Advance
from pipeweave.orchestrator.engine.turn import Turn
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.state import claiming, run_headers
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.values import Values
from pipeweave.spec.document import parse_spec
from pipeweave.spec.pipeline_spec import PipelineSpec, StepSpec
from support.factories import a_task, register
from support.stored_values import VALUES

_tenants = itertools.count(1)

# A failure after which no other attempt follows.
PERMANENT = Failure("BOOM", "it broke", "ValueError", False, "Traceback …")
# A failure after which another attempt follows if one is left.
TRANSIENT = Failure("WEAK", "it broke for now", "OSError", True, "Traceback …")

# The tasks of every driven tenant; `limited` runs twice at a time.
TASKS = ("noop", a_task("limited", concurrency=2), a_task("single", concurrency=1))


@dataclass(slots=True)
class Clock:
    """A clock that the test moves on: the real time and `ahead`."""

    ahead: timedelta = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


class TriggerOptions(TypedDict, total=False):
    """What a trigger may say besides pipeline and input; see `StartRequest`."""

    failure_mode: str | None
    priority: int | None
    metadata: Mapping[str, Any] | None
    run_token: str | None
    triggered_by: TriggeredBy


class Ending(TypedDict, total=False):
    """How the call of a step ends: with an output and the successors it chose, or with a failure."""

    output: Any
    chosen: tuple[str, ...] | None
    failure: Failure | None


@dataclass(slots=True)
class RunDriver:
    """Moves the runs of one tenant by the verbs a worker calls.

    Args:
        database: where the tenant lives; its sender becomes `sent`.
        tenant: by default one of its own; it gets the tasks of TASKS.
        sent: the messages of all transactions, in their order.
    """

    database: Database
    tenant: str = field(default_factory=lambda: f"driven-{next(_tenants)}")
    sent: list[Outgoing] = field(default_factory=list)
    values: Values = VALUES

    def __post_init__(self) -> None:
        self.database.sender = self.sent.extend
        with self.database.transaction() as tx:
            register(tx, self.tenant, *TASKS)

    def store(
        self,
        needs: Mapping[str, Sequence[str]],
        *,
        id: str = "driven",
        tasks: Mapping[str, str] | None = None,
        maps: Mapping[str, Any] | None = None,
        **document: Any,
    ) -> int:
        """Store a pipeline; its version.

        Args:
            needs: steps and their predecessors.
            id: of the pipeline.
            tasks: the tasks of steps whose task is not `noop`.
            maps: what steps that are maps go over.
            document: further members of the pipeline document, as users write them (`failureMode`).
        """
        steps = [
            {"id": step, "task": (tasks or {}).get(step, "noop"), "needs": list(before)}
            | ({"map": {"over": maps[step]}} if maps and step in maps else {})
            for step, before in needs.items()
        ]
        with self.database.transaction() as tx:
            spec = parse_spec({"id": id, "steps": steps, **document})
            return pipelines.store(tx, self.tenant, spec, source="api").version

    def store_steps(self, *steps: StepSpec, id: str = "driven", **spec: Any) -> int:
        """Store a pipeline of these steps as it is; its version."""
        pipeline = PipelineSpec(id, tuple(steps), **spec)
        with self.database.transaction() as tx:
            return store_spec(tx, self.tenant, pipeline)

    def trigger(self, id: str = "driven", input: Any = None, **options: Unpack[TriggerOptions]) -> UUID:
        """Trigger a run of a stored pipeline; the run's id."""
        with self.database.transaction() as tx:
            return triggering.trigger(tx, self.values, self.tenant, StartRequest(id, input, **options)).id

    def begin(self, needs: Mapping[str, Sequence[str]], input: Any = None, **pipeline: Any) -> UUID:
        """Store a pipeline, as `store` does, and trigger a run of it; the run's id."""
        self.store(needs, **pipeline)
        return self.trigger(input=input)

    # --- moves --------------------------------------------------------------------------------------------

    def finish(self, run_id: UUID, *steps: str, **ending: Unpack[Ending]) -> None:
        """Start and end these steps, each in a transaction of its own."""
        if "output" in ending:
            ending["output"] = self.values.keep(ending["output"])
        for step in steps:
            with self.database.transaction() as tx:
                finish_step(tx, run_id, step, **ending)

    def check(self, run_id: UUID, join: int) -> None:
        """Do what a message does that asks about a join."""
        joins.check(self.database, self.values, run_id, join)

    # --- looking ------------------------------------------------------------------------------------------

    def rows(self, statement: str, **parameters: Any) -> list[Any]:
        """The rows that a statement gives, in a transaction of its own."""
        with self.database.transaction() as tx:
            return list(tx.execute(statement, parameters).all())

    def run(self, run_id: UUID) -> Any:
        """The row of a run."""
        return self.rows("SELECT * FROM runs WHERE id = :id", id=run_id)[0]

    def task_runs(self, run_id: UUID) -> list[Any]:
        """The rows of a run's task runs in the order of their ordinals."""
        return self.rows("SELECT * FROM task_runs WHERE run_id = :id ORDER BY id", id=run_id)

    def statuses(self, run_id: UUID) -> dict[str, str]:
        """Status by step, items left out."""
        return {row.step_id: row.status for row in self.task_runs(run_id) if row.kind != "item"}

    def events(self, run_id: UUID, type_: str) -> list[Any]:
        """The events of a run that have this type, oldest first."""
        statement = "SELECT * FROM events WHERE run_id = :id AND type = :type ORDER BY seq"
        return self.rows(statement, id=run_id, type=type_)

    def released(self, run_id: UUID) -> list[int]:
        """The ordinals that messages were sent for."""
        mine = [each for each in self.sent if isinstance(each, Released) and each.run_id == run_id]
        return [ordinal for each in mine for ordinal in each.ordinals]


def store_spec(tx: Transaction, tenant: str, spec: PipelineSpec) -> int:
    """Store a pipeline as its document; its version."""
    return pipelines.store(tx, tenant, parse_spec(spec.to_json()), source="api").version


def header(tx: Transaction, run_id: UUID) -> RunHeader:
    """The header of a run that exists."""
    found = run_headers.load(tx, run_id)
    assert found is not None
    return found


def claim(tx: Transaction, run_id: UUID, ordinal: int, worker: str = "w1") -> TaskRun | None:
    """Start a task run for a worker; None when it is not to be had."""
    started = claiming.start(tx, run_id, [ordinal], 1, worker=worker)
    return started[0] if started else None


def finish_step(tx: Transaction, run_id: UUID, step: str, **ending: Unpack[Ending]) -> None:
    """Start and end a step."""
    run = header(tx, run_id)
    finish_task_run(tx, run_id, run.plan.ordinals[step], **ending)


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


def finish_next_attempt(tx: Transaction, run_id: UUID, ordinal: int, **ending: Unpack[Ending]) -> None:
    """Release the attempt that a failure left to come, and start and end it."""
    waiting: Any = tx.execute(
        "SELECT t.id, t.attempt FROM task_runs AS t WHERE t.run_id = :run_id AND t.id = :id",
        {"run_id": run_id, "id": ids.task_run_id(run_id, ordinal)},
    ).one()
    advance = Advance(tx, header(tx, run_id))
    advance.release_due([waiting.id])
    advance.close()
    [started] = claiming.start(tx, run_id, [ordinal], waiting.attempt, worker="w1")
    settle(tx, started, **ending)


_DUE = "SELECT id FROM task_runs WHERE run_id = :run_id AND status = 'pending' AND due_at <= :now ORDER BY id"


def release_due(driver: RunDriver, run_id: UUID, now: datetime) -> None:
    """Release the attempts of a run that are due, as the tick does."""
    for row in driver.rows(_DUE, run_id=run_id, now=now):
        with driver.database.transaction() as tx:
            advance = Advance(tx, header(tx, run_id))
            advance.release_due([row.id])
            advance.close()


def settle(
    tx: Transaction,
    started: TaskRun,
    *,
    output: Any = None,
    chosen: tuple[str, ...] | None = None,
    failure: Failure | None = None,
) -> None:
    """End a started task run and go on with its run."""
    kept = output if isinstance(output, KeptValue) else VALUES.keep(output)
    ended: CallOutcome = Completion(started, kept, chosen)
    if failure is not None:
        ended = started, failure
    Turn(header(tx, started.run_id), [ended], started.queue, max_retry_delay_ms=None).store(tx)


def ordinals(run_id: UUID, rows: Sequence[Any]) -> list[int]:
    """The ordinals of rows of a run."""
    return [ids.ordinal_of(row.id) for row in rows]
