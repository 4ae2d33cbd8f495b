"""PostgreSQL is away in other ways than being down: its connections go silent, or it takes no writes."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from support.live_stack import LiveStack
from support.servers import read_only

from chaos.proxy import Proxy, proxy_to
from pipeweave.errors import Unavailable
from pipeweave.up.postgres import Postgres

# The promise is 15 s; a machine that is busy with other things takes longer.
SOON_S = 60.0
STEPS = [{"id": "held", "task": "held_step"}, {"id": "after", "task": "held_step", "needs": ["held"]}]


@pytest.fixture
def stack(stack_with_beat: LiveStack) -> LiveStack:
    return stack_with_beat


def begin(stack: LiveStack, gate: Path) -> UUID:
    """A run whose first step is in the middle of its call."""
    Path(f"{gate}.name").write_text("held")
    stack.store({"id": "held", "steps": STEPS})
    run_id = stack.trigger("held", {"gate": str(gate)})
    stack.until(Path(f"{gate}.held").exists, "no step is held")
    return run_id


def through(stack: LiveStack, postgres: Postgres, proxy: Proxy) -> LiveStack:
    """The same stack; what is started by it reaches PostgreSQL through the proxy."""
    url = (stack.settings.database_url or "").replace(f":{postgres.port}/", f":{proxy.port}/")
    return replace(stack, settings=replace(stack.settings, database_url=url))


def test_a_worker_whose_connections_go_silent_goes_on_soon(
    stack: LiveStack, gate: Path, postgres_server: Postgres
) -> None:
    with proxy_to(postgres_server.port) as proxy:
        through(stack, postgres_server, proxy).start_worker("faulty.py", concurrency=1)
        run_id = begin(stack, gate)
        began = time.monotonic()
        assert proxy.silence()
        gate.touch()
        assert stack.finished(run_id, SOON_S).status == "completed"
        another = stack.trigger("held", {"gate": str(gate)})
        assert stack.finished(another, SOON_S).status == "completed"
        assert time.monotonic() - began < SOON_S
        assert stack.called(run_id)["after"] == 1


def test_a_beat_whose_connections_go_silent_goes_on_soon(
    beating_stack: LiveStack, postgres_server: Postgres
) -> None:
    beating_stack.reset()
    for each in beating_stack.processes[:]:
        beating_stack.kill(each.pid)
    with proxy_to(postgres_server.port) as proxy:
        through(beating_stack, postgres_server, proxy).start_beat()

        def last_tick() -> object:
            return beating_stack.rows("SELECT last_tick_at FROM orchestrator_state")[0].last_tick_at

        before = last_tick()
        beating_stack.until(lambda: last_tick() != before, "no tick")
        assert proxy.silence()
        silent = last_tick()
        beating_stack.until(lambda: last_tick() != silent, "no tick after the silence", SOON_S)
        beating_stack.kill(beating_stack.processes[0].pid)


def test_results_of_a_time_without_writes_are_stored_after_it(
    stack: LiveStack, gate: Path, postgres_server: Postgres
) -> None:
    stack.start_worker("faulty.py", concurrency=1)
    run_id = begin(stack, gate)
    with read_only(postgres_server, stack.deployment.database.url):
        gate.touch()
        stack.until(lambda: "turn.delayed" in stack.logs(), "the result was not refused")
    with suppress(Unavailable):
        stack.run(run_id)  # The sessions of this test have ended, too: one of them tells so.
    run = stack.finished(run_id, SOON_S)
    assert run.status == "completed"
    assert stack.called(run_id) == {"held": 1, "after": 1}
    assert stack.attempts(run_id) == []
