"""How long a client waits for a run, and for what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pipeweave import Client
from pipeweave.client.models import Run
from pipeweave.errors import RunEnqueued, RunRefused, WaitTimeout


def answering(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> Client:
    """A client whose looks at a run have these answers; the last one again and again."""
    left: Iterator[Any] = iter(answers[:-1])

    def run(self: Client, run_id: str) -> Run:
        answer = next(left, answers[-1])
        if isinstance(answer, Exception):
            raise answer
        return Run(run_id, "files", answer, {"status": answer})

    monkeypatch.setattr(Client, "run", run)
    return Client("http://127.0.0.1:9", "token")


def test_an_enqueued_run_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    client = answering(monkeypatch, RunEnqueued("not yet"), RunEnqueued("not yet"), "completed")
    assert client.wait("prun_1").status == "completed"


def test_one_that_does_not_start_in_time_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    client = answering(monkeypatch, RunEnqueued("not yet"))
    with pytest.raises(WaitTimeout, match="still enqueued"):
        client.wait("prun_1", timeout=0.01)


def test_one_that_was_refused_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    client = answering(monkeypatch, RunEnqueued("not yet"), RunRefused("never"))
    with pytest.raises(RunRefused):
        client.wait("prun_1")
