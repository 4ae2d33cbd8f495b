"""Trigger runs by HTTP; repeat each request with the same token until the API answers with the run."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from chaos.plan import PlannedRun
from chaos.stack import NotUp, Stack

THREADS = 8
PAUSE_S = 0.2
# At most this many runs are active: the next run is triggered when one of them has ended.
MOST_UNDER_WAY = 25
# Runs that only wait take nobody's time, and those inside of others come with them.
_UNDER_WAY = "finished_at IS NULL AND quiet_since IS NULL AND parent_run_id IS NULL"
# Statuses after which a repeat is of no use: the test itself is wrong.
HOPELESS = frozenset({400, 401, 403, 404, 413, 422})


class Triggers:
    """Triggers the runs of a plan, each at its time.

    Args:
        planned_runs: the runs in the order of their times.
    """

    def __init__(self, up: Stack, planned_runs: Sequence[PlannedRun]) -> None:
        self.up = up
        self.planned_runs = planned_runs
        # By token: every run that the API answered with.
        self.accepted: dict[str, set[str]] = defaultdict(set)
        # The number of refusals by status; 0 stands for no answer.
        self.refused: dict[int, int] = defaultdict(int)
        # Runs that an earlier request had created, whose answer was lost.
        self.repeated = 0
        # Requests that wait for their answer.
        self.open = 0
        self._pool = ThreadPoolExecutor(THREADS, "trigger")
        self._asked: list[Future[None]] = []
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="triggers", daemon=True)

    def store(self) -> None:
        """Store the pipelines.

        Raises:
            NotUp: one was refused.
        """
        for planned in self.planned_runs:
            answer = self.up.ask("PUT", f"/api/pipelines/{planned.pipeline_id}", planned.shape.document)
            if answer.status not in (200, 201):
                raise NotUp(f"pipeline {planned.pipeline_id} was refused: {answer.status} {answer.body}")

    def start(self) -> None:
        """Start the plan's clock."""
        self._thread.start()

    def finish(self, seconds: float) -> bool:
        """Wait this many seconds until every run is accepted; True if all were.

        Raises:
            NotUp: one was refused for good.
        """
        until = time.monotonic() + seconds
        self._thread.join(seconds)
        while not all(each.done() for each in self._asked) and time.monotonic() < until:
            time.sleep(0.05)
        self._end.set()
        self._pool.shutdown()
        for each in self._asked:
            each.result()
        return len(self.accepted) == len(self.planned_runs)

    def _run(self) -> None:
        began = time.monotonic()
        for planned in self.planned_runs:
            while time.monotonic() < began + planned.at or self._is_enough():
                if self._end.wait(0.05):
                    return
            self._asked.append(self._pool.submit(self._ask, planned))

    def _is_enough(self) -> bool:
        """True if so many runs are active that more runs would only wait."""
        try:
            row = self.up.rows(f"SELECT count(*) FROM runs WHERE {_UNDER_WAY}")
        except Exception:
            return False  # PostgreSQL is away: just then it is worth asking
        return int(row[0][0]) >= MOST_UNDER_WAY

    def _ask(self, planned: PlannedRun) -> None:
        body = {"input": planned.shape.input, "failureMode": planned.shape.mode, "runToken": planned.token}
        while not self._end.is_set():
            with self._lock:
                self.open += 1
            answer = self.up.ask("POST", f"/api/pipelines/{planned.pipeline_id}/trigger", body)
            with self._lock:
                self.open -= 1
                if 200 <= answer.status < 300:
                    self.accepted[planned.token].add(answer.body["pipelineRunId"])
                    self.repeated += not answer.body["created"]
                    return
                self.refused[answer.status] += 1
            if answer.status in HOPELESS:
                raise NotUp(f"{planned.token} was refused: {answer.status} {answer.body}")
            self._end.wait(PAUSE_S)
