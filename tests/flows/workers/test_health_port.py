"""`--health-port`: what a worker answers to a probe while it runs, works, stops, and after it was killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import urllib3
from support.live_stack import LiveStack

from pipeweave.up.ports import free_port

APP = """
from pathlib import Path
import time

from pipeweave import task


@task(timeout=60)
def hold() -> None:
    Path(FOLDER, "begun").touch()
    while not Path(FOLDER, "go").exists():
        time.sleep(0.02)


@task(retries=0)
def end_at_once() -> None:
    raise ValueError("not today")
"""


def ask(port: int) -> tuple[int, Any]:
    answer = urllib3.request("GET", f"http://127.0.0.1:{port}/health", retries=False, timeout=10)
    return answer.status, answer.json()


def is_closed(port: int) -> bool:
    try:
        ask(port)
    except urllib3.exceptions.HTTPError:
        return True
    return False


def test_a_worker_says_how_it_is(stack_with_beat: LiveStack, tmp_path: Path) -> None:
    stack, port = stack_with_beat, free_port()
    app = tmp_path / "holding.py"
    app.write_text(f"FOLDER = {str(tmp_path)!r}\n{APP}")
    worker = stack.start_worker(str(app), "--health-port", str(port), concurrency=2)
    stack.until(lambda: not is_closed(port), "the health port does not answer")
    status, idle = ask(port)
    assert (status, idle["status"], idle["busy"], idle["capacity"]) == (200, "running", 0, 2)
    assert (idle["service"], idle["tenant"]) == ("python", stack.settings.tenant)
    assert f":{worker}:" in idle["worker"]
    assert idle["uptime"] >= 0 and idle["lastHeartbeatStored"].endswith("Z")

    stack.store({"id": "short", "steps": [{"task": "end_at_once"}]})
    assert stack.finished(stack.trigger("short")).status == "failed"
    stack.until(
        lambda: (ask(port)[1]["runs"], ask(port)[1]["failed"]) == (1, 1), "the attempt is not counted"
    )

    stack.store({"id": "held", "steps": [{"task": "hold"}]})
    run_id = stack.trigger("held")
    stack.until((tmp_path / "begun").exists, "the task did not begin")
    assert ask(port)[1]["busy"] == 1
    os.kill(worker, signal.SIGTERM)
    stack.until(lambda: ask(port)[0] == 503, "the worker does not say that it stops")
    assert ask(port)[1]["status"] == "stopping"
    (tmp_path / "go").touch()
    assert stack.finished(run_id).status == "completed"
    stack.ended(worker)
    assert is_closed(port)
    lines = stack.logs()
    assert '"worker.started"' in lines and '"worker.stopped"' in lines


def test_the_port_of_a_killed_worker_is_free_while_its_children_live(
    stack_with_beat: LiveStack, tmp_path: Path
) -> None:
    stack, port = stack_with_beat, free_port()
    app = tmp_path / "holding.py"
    app.write_text(f"FOLDER = {str(tmp_path)!r}\n{APP}")
    killed = stack.start_worker(str(app), "--health-port", str(port), concurrency=2)
    stack.until(lambda: not is_closed(port), "the health port does not answer")
    os.kill(killed, signal.SIGKILL)
    stack.ended(killed)
    assert is_closed(port)
    again = stack.start_worker(str(app), "--health-port", str(port), concurrency=2)
    stack.until(lambda: not is_closed(port), "the health port does not answer")
    assert f":{again}:" in ask(port)[1]["worker"]


def test_a_beat_says_when_it_ticked(stack_with_beat: LiveStack) -> None:
    port = free_port()
    beat = stack_with_beat.start_beat(options=("--health-port", str(port)))
    stack_with_beat.until(lambda: not is_closed(port), "the health port does not answer")
    status, found = ask(port)
    assert (status, found["status"]) == (200, "running")
    assert found["worker"].startswith(f"beat-{beat}@") and found["lastTick"].endswith("Z")
