"""Retries whose delays are shorter than the interval of the tick do not wait for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.live_stack import LiveStack, StackMaker

FLAKY = {"id": "flaky", "steps": [{"id": "flaky", "task": "flaky", "params": {"fails": 3}}]}
# A tick so seldom that none comes while a test waits.
SELDOM = {"POLL_INTERVAL_MS": "3600000"}


@pytest.fixture(scope="module")
def stack(make_stack: StackMaker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStack]:
    """A stack whose beat ticks once, when it starts."""
    with make_stack(tmp_path_factory.mktemp("seldom-ticks")) as made:
        made.start_worker("faulty.py", concurrency=1)
        made.start_beat(SELDOM)
        made.until(lambda: ticks(made) is not None, "beat does not tick")
        yield made


def ticks(stack: LiveStack) -> object:
    """When the last tick was; None: there was none."""
    return stack.rows("SELECT last_tick_at FROM orchestrator_state")[0].last_tick_at


def test_a_short_delay_ends_before_the_next_tick(stack: LiveStack) -> None:
    stack.store(FLAKY)
    before = ticks(stack)
    run_id = stack.trigger("flaky")
    assert stack.finished(run_id).status == "completed", stack.logs()
    [row] = stack.rows("SELECT attempt FROM task_runs WHERE run_id = :id", id=run_id)
    assert row.attempt == 4
    assert ticks(stack) == before
