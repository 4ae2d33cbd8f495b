"""Live stacks for tests with real workers. Starting costs seconds: what no test breaks is shared."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.live_stack import LiveStack, StackMaker, new_live_stack
from support.servers import BrokerDatabases

from pipeweave.up.postgres import Postgres


@pytest.fixture(scope="session", autouse=True)
def _interrupts_are_heard() -> Iterator[None]:
    """A background job of a shell ignores SIGINT, and so would all it starts; some tests interrupt that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def make_stack(
    postgres_server: Postgres, database_template: str, broker_databases: BrokerDatabases
) -> StackMaker:
    """`make_stack(folder, backends=())`: a stack without workers, with an empty database and broker."""

    @contextmanager
    def make(folder: Path, backends: tuple[dict[str, Any], ...] = ()) -> Iterator[LiveStack]:
        with ExitStack() as parts:
            broker_url = parts.enter_context(broker_databases.one())
            yield parts.enter_context(
                new_live_stack(postgres_server, database_template, broker_url, folder, backends)
            )

    return make


@pytest.fixture(scope="session")
def stack(make_stack: StackMaker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStack]:
    """A stack for all modules that break nothing: a worker of two children with `apps/steps.py`, no beat."""
    with make_stack(tmp_path_factory.mktemp("stack")) as shared:
        shared.start_worker("steps.py", concurrency=2)
        yield shared


@pytest.fixture(scope="module")
def empty_stack(make_stack: StackMaker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStack]:
    """A stack of this module alone, without workers."""
    with make_stack(tmp_path_factory.mktemp("empty-stack")) as own:
        yield own


@pytest.fixture(scope="module")
def own_stack(empty_stack: LiveStack) -> LiveStack:
    """A stack like the shared one of this module alone: for tests that break it, or look at all of it."""
    empty_stack.start_worker("steps.py", concurrency=2)
    return empty_stack


@pytest.fixture(scope="module")
def beating_stack(make_stack: StackMaker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStack]:
    """A stack of this module alone with a beat and no worker."""
    with make_stack(tmp_path_factory.mktemp("beating-stack")) as own:
        yield own


@pytest.fixture
def stack_with_beat(beating_stack: LiveStack) -> Iterator[LiveStack]:
    """A stack with a beat, whose workers each test starts and kills; what the test left is gone after it."""
    if not beating_stack.has_beat():
        beating_stack.start_beat()
    yield beating_stack
    beating_stack.reset()


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """A file whose making lets held steps end; at the latest when the test does."""
    path = tmp_path / "gate"
    yield path
    path.touch()
