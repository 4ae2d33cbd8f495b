"""A deployment whose processes all reach PostgreSQL through a PgBouncer in transaction mode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.live_stack import LiveStack, StackMaker
from support.pgbouncer import pooled

from pipeweave.orchestrator.deployment import Deployment
from pipeweave.up.postgres import Postgres

WIDE = {
    "id": "wide",
    "steps": [
        {"id": "first", "task": "noop"},
        *({"id": f"part{number}", "task": "noop", "needs": ["first"]} for number in range(20)),
        {"id": "each", "task": "double", "map": {"over": "${input.list}"}, "needs": ["first"]},
        {"id": "last", "task": "noop", "needs": ["each", *(f"part{number}" for number in range(20))]},
    ],
}
FAILING = {"id": "failing", "steps": [{"id": "only", "task": "act"}]}


@pytest.fixture
def stack(make_stack: StackMaker, postgres_server: Postgres, tmp_path: Path) -> Iterator[LiveStack]:
    with make_stack(tmp_path) as own:
        direct_url = own.deployment.database.url
        with pooled(postgres_server, direct_url, tmp_path / "pgbouncer") as url:
            own.deployment.close()
            own.settings = replace(own.settings, database_url=url)
            own.deployment = Deployment.open(own.settings, pool_size=2)
            yield own
            own.close()


def test_runs_end_as_they_should_and_lost_messages_are_sent_again(stack: LiveStack) -> None:
    worker = stack.start_worker("steps.py", concurrency=4)
    stack.start_beat()
    stack.store(WIDE)
    stack.store(FAILING)
    runs = [stack.trigger("wide", {"list": list(range(30))}) for _ in range(20)]
    failing = stack.trigger("failing", {"fail": {"only": [0]}})
    assert [stack.finished(run_id).status for run_id in runs] == ["completed"] * 20
    assert stack.finished(failing).status == "failed"
    assert len(stack.dead_letters(failing)) == 1
    assert stack.rows("SELECT task_run_id FROM attempts WHERE status = 'lost'") == []
    unsent = stack.trigger_unsent("wide", {"list": [1]})
    assert stack.finished(unsent).status == "completed"
    stack.stop(worker)
    assert '"level":"info"' in stack.logs() and '"level":"error"' not in stack.logs()
