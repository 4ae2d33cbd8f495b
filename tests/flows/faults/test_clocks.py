"""Clocks that are wrong by minutes, each in another direction: only PostgreSQL's clock decides."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from support.live_stack import LiveStack, StackMaker

from chaos.shifted_clock import COMPILER, shifted

pytestmark = pytest.mark.skipif(COMPILER is None, reason="a wrong clock takes a C compiler")

WRONG_BY_S = 11 * 60
# What is lost is found within this time, on a machine that is busy with other things.
SOON_S = 30.0

# Triggers a run, as an API process does.
_TRIGGER = """
import sys
from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.runs import triggering
from pipeweave.settings import Settings

database_url, broker_url, tenant, pipeline_id, path = sys.argv[1:]
settings = Settings(database_url=database_url, broker_url=broker_url, tenant=tenant)
deployment = Deployment.open(settings, pool_size=1)
request = triggering.StartRequest(pipeline_id, {"path": path})
print(deployment.database.run(lambda tx: triggering.trigger(tx, deployment.values, tenant, request)).id)
"""


class WrongClocks:
    """A stack whose processes disagree about the time.

    Args:
        ahead_s: the worker's clock is ahead by so much; those of beat and of whoever triggers are behind.
    """

    def __init__(self, stack: LiveStack, folder: Path, ahead_s: int) -> None:
        self.stack = stack
        self.behind = shifted(folder, -ahead_s)
        stack.start_worker("steps.py", concurrency=1, variables=shifted(folder, ahead_s))
        stack.start_beat(self.behind)

    def trigger(self, pipeline_id: str, gate: Path) -> UUID:
        """Trigger a run in a process whose clock is wrong."""
        settings = self.stack.settings
        given = (
            settings.database_url or "",
            settings.broker_url or "",
            settings.tenant,
            pipeline_id,
            str(gate),
        )
        answer = subprocess.run(
            [sys.executable, "-c", _TRIGGER, *given],
            env={"PATH": os.environ["PATH"], **self.behind},
            cwd=self.stack.folder,
            check=True,
            capture_output=True,
            text=True,
        )
        return UUID(answer.stdout.strip())


@pytest.fixture(scope="module", params=[WRONG_BY_S, -WRONG_BY_S], ids=["worker-ahead", "worker-behind"])
def wrong(
    request: pytest.FixtureRequest, make_stack: StackMaker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WrongClocks]:
    folder = tmp_path_factory.mktemp("wrong-clocks")
    with make_stack(folder) as stack:
        yield WrongClocks(stack, folder, request.param)


def test_a_run_has_the_time_that_its_pipeline_gives_it(wrong: WrongClocks, gate: Path) -> None:
    stack = wrong.stack
    gate.touch()
    stack.store({"id": "limited", "timeout": "60s", "steps": [{"id": "only", "task": "hold"}]})
    run = stack.finished(wrong.trigger("limited", gate))
    assert (run.status, run.error_code) == ("completed", None)
    [now] = stack.rows("SELECT now()")[0]
    assert timedelta(0) <= now - run.started_at < timedelta(seconds=60)
    assert run.deadline_at - run.started_at == timedelta(seconds=60)


def test_a_run_that_takes_too_long_is_ended_in_time(wrong: WrongClocks, gate: Path) -> None:
    """With a worker that never ends its step."""
    stack = wrong.stack
    stack.store({"id": "late", "timeout": "2s", "steps": [{"id": "only", "task": "hold"}]})
    run = stack.finished(wrong.trigger("late", gate), SOON_S)
    assert run.error_code == "RUN_TIMEOUT"
    assert run.finished_at - run.started_at >= timedelta(seconds=2)
    gate.touch()


def test_messages_that_are_lost_are_sent_again(wrong: WrongClocks, gate: Path) -> None:
    stack = wrong.stack
    wide = [f"b{number}" for number in range(4)]
    first = {"id": "a", "task": "noop", "needs": []}
    stack.store(
        {"id": "lost", "steps": [first, *({"id": each, "task": "hold", "needs": ["a"]} for each in wide)]}
    )
    run_id = wrong.trigger("lost", gate)
    stack.until(Path(f"{gate}.held").exists, "no step runs")
    assert stack.statuses(run_id)["b3"] == "queued", "the worker has sent messages"
    stack.wipe_broker()
    gate.touch()
    assert stack.finished(run_id, SOON_S).status == "completed"
    assert stack.called(run_id) == {"a": 1, **dict.fromkeys(wide, 1)}


def test_what_waits_in_a_queue_is_not_sent_again(wrong: WrongClocks, gate: Path) -> None:
    stack = wrong.stack
    stack.store({"id": "held", "steps": [{"id": "only", "task": "hold"}]})
    runs = [wrong.trigger("held", gate), *(stack.trigger("held", {"path": str(gate)}) for _ in range(2))]
    stack.until(Path(f"{gate}.held").exists, "no step runs")
    began = stack.rows("SELECT last_tick_at FROM orchestrator_state")[0].last_tick_at
    late = "SELECT last_tick_at > CAST(:began AS timestamptz) + interval '7 s' FROM orchestrator_state"
    stack.until(lambda: bool(stack.rows(late, began=began)[0][0]), "the beat does not tick")
    assert stack.deployment.publisher.depth(stack.queue()) == 2
    gate.touch()
    assert {stack.finished(run_id).status for run_id in runs} == {"completed"}
