"""Stages for tests with real workers: one per module, because starting costs seconds."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.live_stack import LiveStack, new_live_stack

from pipeweave.up.postgres import Postgres
from pipeweave.up.valkey import Valkey


@pytest.fixture(scope="session", autouse=True)
def _interrupts_are_heard() -> Iterator[None]:
    """A background job of a shell ignores SIGINT, and so would all it starts; some tests interrupt that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def empty_stack(
    postgres_server: Postgres,
    database_template: str,
    valkey_server: Valkey,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[LiveStack]:
    """A database and a broker without workers."""
    folder = tmp_path_factory.mktemp("stack")
    with new_live_stack(postgres_server, database_template, valkey_server, folder) as stack:
        yield stack


@pytest.fixture(scope="module")
def stack(empty_stack: LiveStack) -> LiveStack:
    """A stack with one worker of two children that has loaded `apps/steps.py`."""
    empty_stack.start_worker("steps.py", concurrency=2)
    return empty_stack


@pytest.fixture
def stack_with_beat(
    postgres_server: Postgres, database_template: str, valkey_server: Valkey, tmp_path: Path
) -> Iterator[LiveStack]:
    """A stack of its own for each test, with a beat: its workers are killed."""
    with new_live_stack(postgres_server, database_template, valkey_server, tmp_path) as stack:
        stack.start_beat()
        yield stack


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """A file whose making lets held steps end; at the latest when the test does."""
    path = tmp_path / "gate"
    yield path
    path.touch()
