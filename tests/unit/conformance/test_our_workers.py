"""Our own workers keep the protocol."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pipeweave.conformance import Kit, Level, Options, Trial, Verdict

TASKS = Path(__file__).parents[2] / "support" / "checked_tasks.py"


def checked(command: str) -> dict[str, Verdict]:
    options = Options(
        command=command,
        environment=dict(os.environ),
        slow_task=Trial("slow"),
        failing_task=Trial("fail"),
        patience_s=30.0,
        quiet_s=1.0,
    )
    with Kit(options) as kit:
        return {each.check.name: each.verdict for each in kit.findings()}


@pytest.mark.parametrize(("access", "skipped"), [("token", set()), ("urls", {"forged-token"})])
def test_our_python_worker_keeps_every_rule(access: str, skipped: set[str]) -> None:
    serve = f"{sys.executable} -m pipeweave.cli http-worker --app {TASKS} --service checked"
    found = checked(f"{serve} --host 127.0.0.1 --port 0 --storage-access {access}")
    assert {name for name, each in found.items() if each.level is Level.SKIP} == skipped
    assert not {name: each for name, each in found.items() if each.level in (Level.WARN, Level.FAIL)}
    # A URL that has expired is exchanged for a new one.
    assert access == "token" or found["expired-access"].happened == "reported a success"
