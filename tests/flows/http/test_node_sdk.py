"""The SDK for Node serves tasks of a pipeline, and starts and reads its runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import Any

import pytest
from support.api_server import Server
from support.live_stack import LiveStack
from support.pages import ROOT

from pipeweave import ids
from pipeweave.orchestrator.security import access_tokens
from pipeweave.orchestrator.security.access_tokens import WRITE

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")


@pytest.fixture(scope="module")
def said(http_stack: LiveStack, api: Server, orchestrator_url: str, secret: str) -> dict[str, Any]:
    """What the program prints: a run that completes, one that fails, and what lists say of both."""
    with http_stack.deployment.database.transaction() as tx:
        token = access_tokens.create_token(
            tx, name="node", tenants=[http_stack.settings.tenant], scopes=[WRITE]
        )
    environment = {
        "PATH": os.environ["PATH"],
        "PIPEWEAVE_ORCHESTRATOR_URL": orchestrator_url,
        "PIPEWEAVE_SECRET_KEY": secret,
        "CLIENT_URL": api.url,
        "CLIENT_TOKEN": token,
    }
    program = [NODE or "node", str(ROOT / "tests/support/node_round.mjs")]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_outputs_and_files_of_a_step_reach_the_next(said: dict[str, Any]) -> None:
    assert said["run"]["status"] == "completed"
    assert said["run"]["output"] == {"total": 24, "note": "a: 12", "filled": 40_000, "steps": ["price"]}


def test_a_run_token_names_one_run(said: dict[str, Any]) -> None:
    assert said["again"]["pipelineRunId"] == said["run"]["id"]


def test_a_failed_run_has_the_error_of_its_task_and_a_dead_letter(said: dict[str, Any]) -> None:
    assert said["failed"]["status"] == "failed"
    [letter] = said["letters"]
    assert letter["errorCode"] == "NEGATIVE"
    assert said["discarded"]["id"] == letter["id"]


def test_lists_have_every_row(said: dict[str, Any]) -> None:
    assert said["listed"] == [said["failed"]["id"], said["run"]["id"]]
    assert set(said["taskRuns"]) == {"price", "total"}
    assert "node-shop" in said["services"]


def test_the_log_and_the_files_of_a_step_are_kept(http_stack: LiveStack, said: dict[str, Any]) -> None:
    steps = http_stack.steps(ids.read(ids.RUN, said["run"]["id"]))
    assert steps["total"].logs_path
    assert set(steps["price"].assets) == {"note.txt"}


def test_a_worker_that_stopped_has_left(http_stack: LiveStack, said: dict[str, Any]) -> None:
    rows = http_stack.rows("SELECT 1 FROM service_instances WHERE service_id = 'node-shop'")
    assert not rows
