"""Ask something of one run that waits, by HTTP: each request is repeated until it is answered, and noted."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from chaos.stack import Answer, Stack
from chaos.waits.values import Asked

PAUSE_S = 0.2
# Between two looks whether a wait has begun, or a run has ended (s).
LOOK_S = 0.15
# After these nobody knows whether it was done: ask again.
_UNDECIDED = frozenset({408, 429})

Note = Callable[[Asked], None]


class Over(Exception):
    """The trial ends before everything was asked."""


class Conversation:
    """What is asked of one run, and of those inside of it.

    Args:
        run_id: of the run.
        token: its run token.
        pipeline_id: its pipeline.
        tokens: access tokens by name.
        chance: decides what is random.
        end: nothing is asked any more once this is set.
        note: takes what was asked, and how it was answered.
    """

    def __init__(
        self,
        up: Stack,
        run_id: str,
        token: str,
        pipeline_id: str,
        tokens: Mapping[str, str],
        chance: random.Random,
        end: threading.Event,
        note: Note,
    ) -> None:
        self.run_id = run_id
        self.token = token
        self.chance = chance
        self._up = up
        self._pipeline_id = pipeline_id
        self._tokens = tokens
        self._end = end
        self._note = note

    # --- what happens ---------------------------------------------------------------------------------

    def pause_for(self, seconds: float) -> None:
        """Do nothing for so long.

        Raises:
            Over: the trial ends.
        """
        if self._end.wait(seconds):
            raise Over

    def wait_of(self, step: str, run_id: str | None = None) -> str:
        """Wait until a step waits, and return its task run.

        Args:
            run_id: of which run; None for the one that this is about.

        Raises:
            Over: the trial ends.
        """
        path = f"/api/waits?runId={run_id or self.run_id}"
        while True:
            for each in self._read(path, "waits"):
                if each["stepId"] == step:
                    return str(each["taskRunId"])
            self.pause_for(LOOK_S)

    def child_of(self, run_id: str) -> str:
        """Wait until a run has a child, and return the first one.

        Raises:
            Over: the trial ends.
        """
        while True:
            for each in self._read(f"/api/runs/{run_id}/children", "runs"):
                return str(each["id"])
            self.pause_for(LOOK_S)

    def ended(self) -> None:
        """Wait until the run is final.

        Raises:
            Over: the trial ends.
        """
        while True:
            answer = self._up.ask("GET", f"/api/runs/{self.run_id}")
            if answer.status == 200 and answer.body["finishedAt"] is not None:
                return
            self.pause_for(LOOK_S)

    def _read(self, path: str, name: str) -> list[Any]:
        answer = self._up.ask("GET", path)
        return list(answer.body[name]) if answer.status == 200 else []

    # --- what is asked --------------------------------------------------------------------------------

    def key(self, name: str) -> str:
        """What makes a signal of this run the same, and tells it from all others."""
        return f"{self.token}/{name}"

    def signal(
        self, name: str, *, key: str | None = None, run_id: str | None = None, may: bool | None = True
    ) -> Asked:
        """Send a signal; its payload names its key.

        Args:
            key: see `key`; None for that of the name.
            run_id: of the run that it is sent to; None for this one, by its id or its run token.
            may: whether it can still be taken in.

        Raises:
            Over: the trial ends.
        """
        key = key or self.key(name)
        path = f"/api/runs/{run_id or self.run_id}/signals/{name}"
        if run_id is None and self.chance.random() < 0.5:
            path = f"/api/pipelines/{self._pipeline_id}/signals/{name}?runToken={quote(self.token)}"
        return self.ask("signal", path, {"key": key}, about=name, may=may, key=key)

    def vote(
        self, task_run_id: str, deed: str = "approve", *, by: str, may: bool = True, **body: Any
    ) -> Asked:
        """Vote on an approval.

        Args:
            deed: `approve` or `reject`.
            by: the name of an access token.
            may: whether this vote is right.

        Raises:
            Over: the trial ends.
        """
        path = f"/api/waits/{task_run_id}/{deed}"
        return self.ask(deed, path, body, about=task_run_id, by=by, may=may)

    def change(self, deed: str) -> Asked:
        """Pause, resume or cancel the run.

        Raises:
            Over: the trial ends.
        """
        return self.ask(deed, f"/api/runs/{self.run_id}/{deed}", {}, about=self.run_id)

    def ask(
        self,
        deed: str,
        path: str,
        content: Any,
        *,
        about: str,
        by: str = "write",
        may: bool | None = True,
        key: str = "",
    ) -> Asked:
        """Ask until it is answered, and note how.

        Raises:
            Over: the trial ends.
        """
        began = time.time()
        answer, tries = repeated(
            lambda: self._up.ask("POST", path, content, token=self._tokens[by], once=key or None), self._end
        )
        asked = Asked(
            *(deed, self.run_id, about, by, may, content, began, time.time(), tries),
            *(answer.status, answer.body),
            key=key,
        )
        self._note(asked)
        if not answer.status:
            raise Over
        return asked


def repeated(ask: Callable[[], Answer], end: threading.Event) -> tuple[Answer, int]:
    """Repeat a request until it is answered, and count; the answer has the status 0 where the trial ends
    before.
    """
    tries = 0
    while True:
        answer, tries = ask(), tries + 1
        if answer.status and answer.status < 500 and answer.status not in _UNDECIDED:
            return answer, tries
        if end.wait(PAUSE_S):
            return Answer(0, None), tries
