"""Read the output of a run, of a step, or of an item of a map, with large values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pipeweave.errors import NotFound
from pipeweave.suggestions import did_you_mean

if TYPE_CHECKING:
    from pipeweave.client import Client

_ITEM = re.compile(r"(.+)\[(\d+)\]\Z")


def output_of_run(client: Client, run_id: str) -> Any:
    """The output of a run.

    Raises:
        NotFound: the run has no output, because it did not complete.
    """
    run = client.run(run_id, load=True)
    output = run.document.get("output")
    if output is None and run.status != "completed":
        raise NotFound(
            f"run {run_id} has no output: it is {run.status}",
            hint=f"`pipeweave status {run_id}` shows its steps; `pipeweave output {run_id} STEP` prints one",
        )
    return output


def output_of_step(client: Client, run_id: str, step: str) -> Any:
    """The output of a step, or of one item of a map (`charge[3]`).

    Raises:
        NotFound: the run has no such step or item, or it did not complete.
    """
    task_run = client.task_run(task_run_id_of(client, run_id, step), load=True)
    if task_run["status"] != "completed":
        code = f" ({task_run['errorCode']})" if task_run["errorCode"] else ""
        raise NotFound(f"step {step} has no output: it is {task_run['status']}{code}")
    return task_run["output"]


def task_run_id_of(client: Client, run_id: str, step: str) -> str:
    """The id of the task run of a step, or of one item of a map (`charge[3]`).

    Raises:
        NotFound: the run has no such step or item.
    """
    steps: Mapping[str, Any] = {each["id"]: each for each in client.run(run_id).document["steps"]}
    if step in steps:
        return str(steps[step]["taskRunId"])
    if (item := _ITEM.match(step)) and item[1] in steps:
        return _item_id(client, run_id, item[1], int(item[2]))
    raise NotFound(
        f"run {run_id} has no step {step!r}", hint=did_you_mean(step, steps) or f"steps: {', '.join(steps)}"
    )


def _item_id(client: Client, run_id: str, step: str, index: int) -> str:
    items = 0
    for each in client.task_runs(run_id, stepId=step):
        if each["mapIndex"] == index:
            return str(each["id"])
        items += each["mapIndex"] is not None
    if items == 0:
        raise NotFound(f"step {step} of run {run_id} has no items", hint=f"give the step alone: {step}")
    raise NotFound(f"map {step} of run {run_id} has no item {index}", hint=f"its items are 0 to {items - 1}")
