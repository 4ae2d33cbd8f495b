"""Pause, resume, cancel and rerun runs by HTTP at the times of the plan; repeat each request until it is
answered.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg2

from chaos.plan import Change, PlannedRun
from chaos.stack import Answer, NotUp, Stack
from chaos.triggering import HOPELESS, PAUSE_S
from pipeweave import ids

# Changes that wait or last at the same time.
THREADS = 8
# A change waits so long (s) for a run that it can be made to.
PATIENCE_S = 5.0
_OPEN = "SELECT id, run_token FROM runs WHERE finished_at IS NULL AND run_token = ANY(%s) ORDER BY id"
# Newest first: reruns of reruns are wanted, too.
_FINAL = (
    "SELECT id, run_token FROM runs WHERE finished_at IS NOT NULL AND run_token = ANY(%s)"
    " ORDER BY id DESC LIMIT 12"
)


@dataclass(frozen=True, slots=True)
class Changed:
    """A change that was asked for.

    Args:
        run_id: of the run that it was made to.
        status: of the answer; 0 stands for no answer.
        token: of a rerun.
        step: that a rerun begins at; None for the beginning.
        refused: why a rerun was refused: the code of the first error.
    """

    kind: str
    run_id: str
    status: int
    token: str | None = None
    step: str | None = None
    refused: str | None = None

    @property
    def is_done(self) -> bool:
        return 200 <= self.status < 300


class Changes:
    """Changes runs as a plan says.

    Args:
        planned: in the order of their times.
        runs: those that may be changed.
    """

    def __init__(self, up: Stack, planned: Sequence[Change], runs: Sequence[PlannedRun]) -> None:
        self.up = up
        self.planned = planned
        self.done: list[Changed] = []
        # The reruns that were asked for and not refused, and the runs that the API answered with, by token.
        self.reruns: dict[str, PlannedRun] = {}
        self.accepted: dict[str, set[str]] = {}
        self._known = {each.token: each for each in runs}
        self._pool = ThreadPoolExecutor(THREADS, "change")
        self._asked: list[Future[None]] = []
        # No new change, no longer pause; and no further repeat of a request.
        self._is_over, self._end = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="changes", daemon=True)

    def start(self) -> None:
        """Start the plan's clock."""
        self._thread.start()

    def finish(self, seconds: float) -> None:
        """Resume what is paused, and wait this many seconds until every request is answered.

        Raises:
            NotUp: one was refused for good: the test itself is wrong.
        """
        self._is_over.set()
        self._thread.join()
        until = time.monotonic() + seconds
        while not all(each.done() for each in self._asked) and time.monotonic() < until:
            time.sleep(0.05)
        self._end.set()
        self._pool.shutdown()
        for each in self._asked:
            each.result()

    def _run(self) -> None:
        began = time.monotonic()
        for change in self.planned:
            if self._is_over.wait(max(0.0, began + change.at - time.monotonic())):
                return
            self._asked.append(self._pool.submit(self._change, change))

    def _change(self, change: Change) -> None:
        target = self._target(change)
        if target is None:
            return
        run_id, token = target
        match change.kind:
            case "pause":
                self._pause(run_id, change.seconds)
            case "cancel":
                self._note(Changed("cancel", run_id, self._ask(f"/api/runs/{run_id}/cancel", {}).status))
            case _:
                self._rerun(change, run_id, token)

    def _target(self, change: Change) -> tuple[str, str] | None:
        """The run that a change is made to, and its token; None when there is none in time."""
        until = time.monotonic() + PATIENCE_S
        statement = _FINAL if change.kind.startswith("rerun") else _OPEN
        while not self._is_over.is_set() and time.monotonic() < until:
            try:
                if found := self.up.rows(statement, list(self._known)):
                    run_id, token = found[int(change.chance * len(found))]
                    return ids.show(ids.RUN, UUID(str(run_id))), token
            except psycopg2.Error:
                pass  # PostgreSQL is away
            time.sleep(0.1)
        return None

    def _pause(self, run_id: str, seconds: float) -> None:
        answer = self._ask(f"/api/runs/{run_id}/pause", {"reason": "a test"})
        self._note(Changed("pause", run_id, answer.status))
        if 200 <= answer.status < 300:
            self._is_over.wait(seconds)
            self._note(Changed("resume", run_id, self._ask(f"/api/runs/{run_id}/resume", {}).status))

    def _rerun(self, change: Change, run_id: str, token: str) -> None:
        before = self._known[token]
        steps = [each["id"] for each in before.shape.document["steps"]]
        step = None if change.step is None else steps[int(change.step * len(steps))]
        planned = PlannedRun(change.at, f"{change.name}-of-{token}", before.shape)
        with self._lock:
            self.reruns[planned.token] = planned
        body = {"runToken": planned.token} | ({} if step is None else {"fromStep": step})
        answer = self._ask(f"/api/runs/{run_id}/rerun", body)
        refused = None
        with self._lock:
            if 200 <= answer.status < 300:
                self.accepted[planned.token] = {answer.body["pipelineRunId"]}
                self._known[planned.token] = planned
            elif answer.status:
                del self.reruns[planned.token]
                errors = answer.body.get("errors") or [{}]
                refused = str(errors[0].get("code") or answer.body.get("detail"))
        self._note(Changed("rerun", run_id, answer.status, planned.token, step, refused))

    def _note(self, changed: Changed) -> None:
        with self._lock:
            self.done.append(changed)

    def _ask(self, path: str, body: dict[str, Any]) -> Answer:
        """Repeat a request until it is answered: by the change, or by the reason why it cannot be made."""
        while True:
            answer = self.up.ask("POST", path, body)
            if 200 <= answer.status < 300 or answer.status == 409:
                return answer
            if answer.status in HOPELESS:
                raise NotUp(f"{path} was refused: {answer.status} {answer.body}")
            if self._end.wait(PAUSE_S):
                return Answer(0, None)
