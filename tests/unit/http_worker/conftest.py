"""An orchestrator, and workers that are stopped after the test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.fake_orchestrator import SECRET, FakeOrchestrator, Serve, orchestrating

from pipeweave import HttpWorker


@pytest.fixture
def orchestrator() -> Iterator[FakeOrchestrator]:
    with orchestrating() as found:
        yield found


@pytest.fixture
def serve(orchestrator: FakeOrchestrator) -> Iterator[Serve]:
    """Start a worker with these tasks, whose dispatches hold URLs."""
    started: list[HttpWorker] = []

    def start(*tasks: Any, **options: Any) -> HttpWorker:
        given = {"storage_access": "urls", "token": "pw_secret", "tenant": "default", "grace_s": 5, **options}
        worker = HttpWorker("shop", orchestrator.url, SECRET, tasks=tasks, host="127.0.0.1", port=0, **given)
        started.append(worker)
        worker.start()
        return worker

    yield start
    for each in started:
        each.stop()
