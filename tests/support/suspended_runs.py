"""Runs of which the step `ask` suspends itself, driven by their verbs; the step `end` comes after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from pipeweave import Suspend, async_reports, ids
from pipeweave.callback_tokens import Callback
from pipeweave.orchestrator.domain.task_run import Suspended, TaskRun
from pipeweave.orchestrator.engine.advance import Advance
from pipeweave.orchestrator.engine.turn import Turn
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.state.rows import COLUMNS, of_row
from pipeweave.orchestrator.waits import callbacks
from pipeweave.orchestrator.waits.looking import look_at
from pipeweave.spec import parse_spec
from support.run_driver import RunDriver, claim, header, store_spec
from support.stored_values import VALUES

ONE_RETRY = {"attempts": 2, "delayMs": 1, "backoff": "fixed"}


@dataclass(slots=True)
class SuspendedRuns:
    """Begins runs, and lets their calls suspend themselves."""

    driver: RunDriver

    def begin(
        self, suspend: Suspend | None = None, step: Mapping[str, Any] | None = None, *, look: bool = True
    ) -> UUID:
        """Begin a run whose first step suspends itself.

        Args:
            suspend: what it waits for; by default, a callback.
            step: further members of the step.
            look: whether the process lives on after the commit, and looks.
        """
        run_id = self.trigger(step)
        self.suspend(self.claim(run_id), suspend, look=look)
        return run_id

    def trigger(self, step: Mapping[str, Any] | None = None, **document: Any) -> UUID:
        """Begin a run; its first step is queued."""
        steps = [{"id": "ask", "task": "noop", **(step or {})}, {"id": "end", "task": "noop"}]
        spec = parse_spec({"id": "driven", "steps": steps, **document})
        with self.driver.database.transaction() as tx:
            store_spec(tx, self.driver.tenant, spec)
        return self.driver.trigger()

    def claim(self, run_id: UUID, ordinal: int = 1) -> TaskRun:
        """Claim the call."""
        with self.driver.database.transaction() as tx:
            claimed = claim(tx, run_id, ordinal)
        assert claimed is not None
        return claimed

    def claim_again(self, run_id: UUID) -> TaskRun:
        """Claim the second attempt of the call, whether it is due or not."""
        with self.driver.database.transaction() as tx:
            advance = Advance(tx, header(tx, run_id))
            advance.release_due([ids.task_run_id(run_id, 1)])
            advance.close()
            [claimed] = claiming.start(tx, run_id, [1], 2, worker="w1")
        return claimed

    def suspend(self, task_run: TaskRun, suspend: Suspend | None = None, *, look: bool = True) -> None:
        """End the call so that it waits."""
        suspended = Suspended(task_run, suspend or Suspend.callback(), {"a": {"path": "p", "size": 1}})
        with self.driver.database.transaction() as tx:
            run = header(tx, task_run.run_id)
            Turn(run, [suspended], "q", max_retry_delay_ms=None).store(tx)
            if not look:
                tx._after.clear()

    def report(
        self,
        run_id: UUID,
        body: Any = None,
        *,
        attempt: int = 1,
        lives: timedelta = timedelta(days=7),
        look: bool = True,
        ordinal: int = 1,
    ) -> bool:
        """Report by the callback URL of an attempt; whether it was new."""
        kept = VALUES.keep(async_reports.of_callback(body))
        with self.driver.database.transaction() as tx:
            named = Callback(ids.task_run_id(run_id, ordinal), attempt, tx.now + lives)
            is_new = callbacks.receive(tx, named, kept)
            if not look:
                tx._after.clear()
        return is_new

    def look(self, run_id: UUID, ordinal: int = 1) -> int:
        """Look at the wait; how many ended."""
        keys = [(run_id, ids.task_run_id(run_id, ordinal))]
        return self.driver.database.run(lambda tx: look_at(tx, keys)).ended

    def row(self, run_id: UUID) -> Any:
        """The row of the step."""
        return self.driver.task_runs(run_id)[0]

    def task_run(self, run_id: UUID) -> TaskRun:
        """The step's task run as it is."""
        with self.driver.database.transaction() as tx:
            statement = f"SELECT {COLUMNS} FROM task_runs AS t WHERE t.id = :id"
            return of_row(tx.execute(statement, {"id": ids.task_run_id(run_id, 1)}).one())

    def waits(self, run_id: UUID) -> list[Any]:
        """The rows of the run's open waits."""
        return self.driver.rows("SELECT * FROM waits WHERE run_id = :id ORDER BY task_run_id", id=run_id)
