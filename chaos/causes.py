"""Let runs begin during a trial by rows that a caller wrote, and by the ends of these runs.

`enqueued` runs begin with the commit of a transaction of somebody else. Each end of one calls a URL, and
starts a run of `following`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg2

from chaos.listener import Listener
from chaos.plan import PlannedRun
from chaos.records import Records
from chaos.shapes import Document, Shape
from chaos.stack import NotUp, Stack
from pipeweave.enqueueing import enqueue

# Between two rows (s).
EVERY_S = 1.5
TRIGGER = "after-enqueued"
_INPUT: Document = {"steps": {}, "lists": {}, "seconds": 0.05}
_STEPS = [{"id": "a", "task": "work", "needs": []}]
ENQUEUED = Shape({"id": "enqueued", "steps": _STEPS}, _INPUT, "fail-fast")
FOLLOWING = Shape({"id": "following", "steps": _STEPS}, _INPUT, "fail-fast")


class Causes:
    """Enqueues runs until `finish`.

    Args:
        tokens: of the runs whose transactions have committed.
    """

    def __init__(self, up: Stack, listener: Listener, seed: int) -> None:
        self.up = up
        self.listener = listener
        self.tokens: list[str] = []
        self._seed = seed
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="causes", daemon=True)

    def store(self) -> None:
        """Store the pipelines and the trigger.

        Raises:
            NotUp: one was refused.
        """
        hooked = {**ENQUEUED.document, "onSuccess": [{"url": self.listener.url}]}
        self._put("/api/pipelines/enqueued", hooked)
        self._put("/api/pipelines/following", FOLLOWING.document)
        event = {"kind": "event", "on": "pipeline-completed", "pipelineId": "following", "input": _INPUT}
        self._put(f"/api/triggers/{TRIGGER}", {**event, "filter": {"pipelineId": ["enqueued"]}})

    def _put(self, path: str, body: Document) -> None:
        answer = self.up.ask("PUT", path, body)
        if answer.status not in (200, 201):
            raise NotUp(f"{path} was refused: {answer.status} {answer.body}")

    def start(self) -> None:
        """Start to enqueue."""
        self._thread.start()

    def finish(self, seconds: float) -> None:
        """Enqueue nothing more, and wait this many seconds until the row under way is committed."""
        self._is_over.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        number = 0
        while not self._is_over.wait(EVERY_S):
            token = f"enqueued-{self._seed}-{number}"
            while not self._enqueue(token):
                # It may have committed: the token makes a second row harmless.
                if self._is_over.wait(EVERY_S) and self._enqueue(token):
                    break
            self.tokens.append(token)
            number += 1

    def _enqueue(self, token: str) -> bool:
        try:
            connection = psycopg2.connect(self.up.database.url, connect_timeout=5)
        except psycopg2.Error:
            return False
        try:
            with connection:
                enqueue(connection, "enqueued", ENQUEUED.input, run_token=token)
        except psycopg2.Error:
            return False
        finally:
            connection.close()
        return True

    def planned_runs(self, records: Records) -> Iterator[PlannedRun]:
        """The runs that were enqueued, and those that must follow their ends."""
        yield from (PlannedRun(0.0, token, ENQUEUED) for token in self.tokens)
        for run in enqueued_runs(records):
            yield PlannedRun(0.0, f"event:{run}", FOLLOWING)

    def accepted(self, records: Records) -> dict[str, set[str]]:
        """By token: the run that a row or an end has started."""
        wanted = {each.token for each in self.planned_runs(records)}
        return {
            run.token: {run.id}
            for run in records.runs.values()
            if run.token is not None and run.token in wanted
        }


def enqueued_runs(records: Records) -> list[str]:
    """The enqueued runs that have ended."""
    return [
        each.id
        for each in records.runs.values()
        if each.pipeline_id == "enqueued" and each.finished is not None
    ]
