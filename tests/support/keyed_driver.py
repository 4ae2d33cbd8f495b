"""Driving task runs that have idempotency keys."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.domain.call_outcome import CallOutcome, task_run_of
from pipeweave.orchestrator.domain.task_run import Completion, KeyWait, TaskRun
from pipeweave.orchestrator.engine import idempotency
from pipeweave.orchestrator.engine.turn import Turn
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.store.database import Transaction
from support.factories import a_task, register
from support.run_driver import RunDriver, header

TTL_S = 60
DAY = timedelta(days=1)


class Keyed(RunDriver):
    """A driver whose calls have idempotency keys."""

    def __post_init__(self) -> None:
        super().__post_init__()
        with self.database.transaction() as tx:
            brief = a_task("brief", idempotency_ttl=TTL_S, retry_delay_ms=60_000)
            register(tx, self.tenant, brief, a_task("one", concurrency=1), id="keyed")

    def one(self, task: str = "noop", **pipeline: Any) -> UUID:
        """Begin a run of one step; further members are those of `RunDriver.begin`."""
        return self.begin({"a": []}, tasks={"a": task}, **pipeline)

    def start(self, run_id: UUID, ordinal: int = 1, attempt: int = 1, worker: str = "w1") -> TaskRun:
        """Claim a queued task run."""
        with self.database.transaction() as tx:
            (started,) = claiming.start(tx, run_id, [ordinal], attempt, worker=worker)
            return started

    def take(self, started: TaskRun, key: str = "k") -> Completion | KeyWait | None:
        """What becomes of a call with this key."""
        with self.database.statements() as tx:
            return idempotency.claim(tx, self.tenant, started, key)

    def holder(self, key: str = "k", task: str = "noop") -> TaskRun:
        """A task run of a run of its own that executes under a key."""
        started = self.start(self.one(task))
        assert self.take(started, key) is None
        return started

    def turn(self, *outcomes: CallOutcome) -> list[TaskRun]:
        """Store outcomes as a worker does; those that ended with it."""
        called = [task_run_of(each) for each in outcomes]
        with self.database.transaction() as tx:
            before = self._final(tx, called)
            Turn(header(tx, called[0].run_id), outcomes, called[0].queue, max_retry_delay_ms=None).store(tx)
            return [each for each in self._final(tx, called) if each not in before]

    @staticmethod
    def _final(tx: Transaction, called: Sequence[TaskRun]) -> list[TaskRun]:
        statement = "SELECT t.id FROM task_runs AS t WHERE t.id = ANY(:ids) AND t.finished_at IS NOT NULL"
        final = set(tx.execute(statement, {"ids": [each.id for each in called]}).scalars())
        return [each for each in called if each.id in final]

    def done(
        self, started: TaskRun, output: Any = "done", key: str = "k", chosen: tuple[str, ...] | None = None
    ) -> Completion:
        """What its function gives."""
        return Completion(started, self.values.keep(output), chosen, key)

    def row(self, task_run: TaskRun) -> Any:
        return self.rows("SELECT * FROM task_runs WHERE id = :id", id=task_run.id)[0]

    def key_row(self, key: str = "k") -> Any:
        found = self.rows(
            "SELECT * FROM idempotency_claims WHERE tenant_id = :tenant AND key = :key",
            tenant=self.tenant,
            key=key,
        )
        return found[0] if found else None

    def waiting(self, key: str = "k", task: str = "noop") -> TaskRun:
        """A task run of a run of its own that stepped back."""
        started = self.start(self.one(task))
        found = self.take(started, key)
        assert isinstance(found, KeyWait)
        self.turn(found)
        return started

    def waiting_for_another(self) -> TaskRun:
        """One that waits for another key."""
        self.holder("another")
        return self.waiting("another")

    def assert_told(self, *runs: UUID) -> None:
        """Events and rows of runs agree."""
        for run_id in runs:
            with verify.snapshot(self.database) as tx:
                assert verify.run(tx, run_id) == []
