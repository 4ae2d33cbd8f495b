"""The secret key is exchanged while runs go on: nobody is refused, and no report is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from support.api_server import running_api
from support.live_stack import SECRET_KEY, LiveStack, StackMaker

from pipeweave import Context, HttpWorker, task
from pipeweave.orchestrator.security import access_tokens
from pipeweave.orchestrator.security.access_tokens import WORKER

NEW_KEY = "7a" * 32
# The exchange, from the first key to the second.
RINGS = (f"{SECRET_KEY},{NEW_KEY}", f"{NEW_KEY},{SECRET_KEY}")
PIPELINE = {"id": "rotating", "steps": [{"id": "a", "task": "remote"}, {"id": "b", "task": "remote"}]}


@task(id="remote", retries=0, timeout="1m")
def remote(ctx: Context) -> str:
    ctx.log.info("here")
    ctx.progress(50)
    ctx.add_asset("a.txt", "kept")
    return ctx.step_id or ""


@pytest.fixture
def stack(make_stack: StackMaker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStack]:
    with make_stack(tmp_path_factory.mktemp("key-exchange")) as own:
        yield own


def http_worker(stack: LiveStack, url: str, ring: str) -> HttpWorker:
    tenant = stack.settings.tenant
    with stack.deployment.database.transaction() as tx:
        token = access_tokens.create_token(tx, name="worker", tenants=[tenant], scopes=[WORKER])
    return HttpWorker(
        "rotating", url, ring, tasks=[remote], host="127.0.0.1", port=0, token=token, tenant=tenant
    )


def test_every_run_completes_at_its_first_attempt(stack: LiveStack) -> None:
    runs: list[UUID] = []

    def load(count: int = 6) -> None:
        runs.extend(stack.trigger("rotating") for _ in range(count))

    with ExitStack() as parts:
        urls: list[str] = []
        for number, ring in enumerate(RINGS):
            folder = stack.folder / f"api-{number}"
            folder.mkdir()
            urls.append(
                parts.enter_context(running_api(replace(stack.settings, secret_key=ring), folder)).url
            )
        # Both kinds of workers, each with the API that has the other order.
        for url, ring in zip(urls, reversed(RINGS), strict=True):
            worker = http_worker(stack, url, ring)
            worker.start()
            parts.callback(worker.stop)
        stack.variables["PIPEWEAVE_SECRET_KEY"] = RINGS[0]
        stack.start_beat()
        before = stack.start_worker("steps.py")
        stack.store(PIPELINE)
        load()
        stack.until(lambda: any(each.status != "pending" for each in map(stack.run, runs)), "a run begins")
        stack.variables["PIPEWEAVE_SECRET_KEY"] = RINGS[1]
        stack.start_worker("steps.py")
        load()
        stack.stop(before)
        load()
        for each in runs:
            stack.finished(each)
    assert_all_completed(stack, runs)


def assert_all_completed(stack: LiveStack, runs: list[UUID]) -> None:
    rows: list[Any] = [row for each in runs for row in stack.task_runs(each)]
    assert len(rows) == 2 * len(runs)
    assert {(row.status, row.attempt) for row in rows} == {("completed", 1)}
    assert all(row.assets for row in rows)
    logs = stack.logs() + "".join(each.read_text() for each in stack.folder.glob("api-*/api.log"))
    assert "DISPATCH_REFUSED" not in logs and '"status": 401' not in logs and '"status":401' not in logs
