"""What Celery's tools show of a worker that is busy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.live_stack import LiveStack

from pipeweave import ids
from pipeweave.orchestrator.messaging import make_celery

MAP = {
    "id": "named-map",
    "steps": [
        {
            "id": "each",
            "task": "hold_item",
            "params": {"path": "${input.path}"},
            "map": {"over": "${input.list}", "as": "number"},
        }
    ],
}
ONE = {"id": "named", "steps": [{"id": "only", "task": "hold"}]}


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "gate"


@pytest.mark.parametrize(("document", "items", "shown"), [(ONE, 1, "hold"), (MAP, 2, "hold_item")])
def test_inspect_active_names_the_task(
    stack: LiveStack, gate: Path, document: dict[str, Any], items: int, shown: str
) -> None:
    stack.store(document)
    run_id = stack.trigger(document["id"], {"path": str(gate), "list": list(range(items))})
    stack.until(Path(f"{gate}.held").exists, "the step does not run")
    app = make_celery(stack.settings, is_worker=True)
    try:
        found = [each for busy in app.control.inspect(timeout=5).active().values() for each in busy]
    finally:
        app.close()
        gate.touch()
        stack.finished(run_id)
    of_run = [each for each in found if each["args"][0] == run_id.hex and each["name"] != "pipeweave.join"]
    assert {each["name"] for each in of_run} == {shown}
    assert {each["type"] for each in of_run} == {"pipeweave.run"}
    assert all(each["id"].startswith(ids.show(ids.TASK_RUN, run_id)[:20]) for each in of_run)
