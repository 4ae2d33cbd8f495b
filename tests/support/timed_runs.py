"""Runs whose time is told by the test: steps that wait, fail, are retried or held, and a map."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.engine.advance import Advance
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.store.database import Database
from support.run_driver import PERMANENT, TRANSIENT, Clock, RunDriver, header, settle
from support.stored_values import VALUES

# Steps of REPORT by ordinal; its items follow.
REPORT = {"list": [], "resize": ["list"], "tag": ["list"], "upload": ["tag"], "report": ["resize", "upload"]}
LIST, RESIZE, TAG, UPLOAD, REPORTED, FIRST_ITEM = 1, 2, 3, 4, 5, 6


class TimedRuns:
    """Runs of a tenant at times that the test chooses; it begins some minutes ago."""

    def __init__(self, database_url: str, tenant: str, minutes_ago: float = 10) -> None:
        self.clock = Clock(timedelta(minutes=-minutes_ago))
        self.database = Database(database_url, react=reactions_to, now=self.clock)
        self.driver = RunDriver(self.database, tenant)
        # What an open run works on.
        self.working: list[TaskRun] = []

    def wait(self, seconds: float) -> None:
        self.clock.ahead += timedelta(seconds=seconds)

    def start(self, run_id: UUID, *ordinals: int, attempt: int = 1) -> list[TaskRun]:
        with self.database.transaction() as tx:
            return claiming.start(tx, run_id, ordinals, attempt, worker="w1@host")

    def end(self, started: Sequence[TaskRun], **ending: Any) -> None:
        for each in started:
            with self.database.transaction() as tx:
                settle(tx, each, **ending)

    def work(self, run_id: UUID, ordinal: int, seconds: float, attempt: int = 1, **ending: Any) -> None:
        started = self.start(run_id, ordinal, attempt=attempt)
        self.wait(seconds)
        self.end(started, **ending)

    def release(self, run_id: UUID, ordinal: int) -> None:
        """Release an attempt before it is due."""
        with self.database.transaction() as tx:
            advance = Advance(tx, header(tx, run_id))
            advance.release_due([ids.task_run_id(run_id, ordinal)])
            advance.close()

    def report(self, items: int = 60, *, is_open: bool = False) -> UUID:
        """A run of 41 s: `tag` is tried twice, `upload` waits for the limit of its task, and of the items of
        `resize` one in twenty fails.
        """
        self.driver.store(
            REPORT,
            id="report",
            maps={"resize": "${steps.list}"},
            tasks={"upload": "single"},
            failureMode="partial-merge",
        )
        self.driver.store({"a": []}, id="holder", tasks={"a": "single"})
        run_id = self.driver.trigger("report")
        self.wait(0.8)
        self.work(run_id, LIST, 3, output=VALUES.keep(list(range(items))))
        tag = self.start(run_id, TAG)
        holder = self.driver.trigger("holder")
        holding = self.start(holder, 1)
        for place in range(0, items, 10):
            chunk = self.start(run_id, *range(FIRST_ITEM + place, FIRST_ITEM + min(place + 10, items)))
            for number, each in enumerate(chunk):
                self.wait(0.1 + (place + number) % 7 * 0.05)
                failure = PERMANENT if (place + number) % 20 == 13 else None
                self.end([each], **({"failure": failure} if failure else {}))
            if place == 10:
                self.end(tag, failure=TRANSIENT)
            if place == 30:
                self.release(run_id, TAG)
                self.work(run_id, TAG, 1.5, attempt=2)
        self.driver.check(run_id, RESIZE)
        self.wait(8)
        self.end(holding)
        self.wait(1.2)
        if is_open:
            self.working = self.start(run_id, UPLOAD)
            return run_id
        self.work(run_id, UPLOAD, 4)
        self.wait(0.4)
        self.work(run_id, REPORTED, 6)
        return run_id

    def close(self) -> None:
        self.database.dispose()
