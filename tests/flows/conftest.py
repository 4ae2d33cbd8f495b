"""Stages for tests with real workers: one per module, because starting costs seconds."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.live_stack import Stage, new_stage

from pipeweave.up.postgres import Postgres
from pipeweave.up.valkey import Valkey


@pytest.fixture(scope="session", autouse=True)
def _interrupts_are_heard() -> Iterator[None]:
    """A background job of a shell ignores SIGINT, and so would all it starts; some tests interrupt that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def empty_stage(
    postgres_server: Postgres,
    database_template: str,
    valkey_server: Valkey,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stage]:
    """A database and a broker without workers."""
    folder = tmp_path_factory.mktemp("stage")
    with new_stage(postgres_server, database_template, valkey_server, folder) as stage:
        yield stage


@pytest.fixture(scope="module")
def stage(empty_stage: Stage) -> Stage:
    """A stage with one worker of two children that has loaded `apps/steps.py`."""
    empty_stage.start_worker("steps.py", concurrency=2)
    return empty_stage


@pytest.fixture
def fragile(
    postgres_server: Postgres, database_template: str, valkey_server: Valkey, tmp_path: Path
) -> Iterator[Stage]:
    """A stage of its own for each test, with a beat: its workers are killed."""
    with new_stage(postgres_server, database_template, valkey_server, tmp_path) as stage:
        stage.start_beat()
        yield stage


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """A file whose making lets held steps end; at the latest when the test does."""
    path = tmp_path / "gate"
    yield path
    path.touch()
