"""Our own workers keep the protocol."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.pages import ROOT

from pipeweave.conformance import ContractLevel, ContractVerdict, Kit, SessionOptions, Trial
from pipeweave.up.ports import free_port

NODE_WORKER = ROOT / "examples" / "node_worker" / "worker.js"
TASKS = Path(__file__).parents[2] / "support" / "checked_tasks.py"


OPTIONS = SessionOptions(
    environment=dict(os.environ),
    slow_task=Trial("slow"),
    failing_task=Trial("fail"),
    pending_task=Trial("submit"),
    patience_s=30.0,
    quiet_s=1.0,
)


def checked(command: str, **chosen: Any) -> dict[str, ContractVerdict]:
    with Kit(replace(OPTIONS, command=command, **chosen)) as kit:
        return {each.check.name: each.verdict for each in kit.findings()}


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_example_in_node_keeps_every_rule() -> None:
    words = Trial("rank_words", {"counts": {"a": 2, "b": 1}, "top": 1})
    environment = {**os.environ, "PORT": str(free_port())}
    found = checked(
        f"node {NODE_WORKER}",
        task=words,
        slow_task=None,
        failing_task=None,
        pending_task=None,
        environment=environment,
    )
    assert not {
        name: each for name, each in found.items() if each.level in (ContractLevel.WARN, ContractLevel.FAIL)
    }


@pytest.mark.parametrize(("access", "skipped"), [("token", set()), ("urls", {"forged-token"})])
def test_our_python_worker_keeps_every_rule(access: str, skipped: set[str]) -> None:
    serve = f"{sys.executable} -m pipeweave.cli http-worker --app {TASKS} --service checked"
    found = checked(f"{serve} --host 127.0.0.1 --port 0 --storage-access {access}")
    assert {name for name, each in found.items() if each.level is ContractLevel.SKIP} == skipped
    assert not {
        name: each for name, each in found.items() if each.level in (ContractLevel.WARN, ContractLevel.FAIL)
    }
    # A URL that has expired is exchanged for a new one.
    assert access == "token" or found["expired-access"].happened == "reported a success"


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_a_worker_with_the_sdk_for_node_keeps_every_rule() -> None:
    found = checked(f"node {TASKS.with_suffix('.mjs')}")
    assert {name for name, each in found.items() if each.level is ContractLevel.SKIP} == {"forged-token"}
    assert not {
        name: each for name, each in found.items() if each.level in (ContractLevel.WARN, ContractLevel.FAIL)
    }
    assert found["expired-access"].happened == "reported a success"
