"""The step, or the item of a map, that is selected on a run's screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeweave.api.ui import logs, step_sentences, waits
from pipeweave.api.ui.tracebacks import Traceback, traced
from pipeweave.api.ui.view import View
from pipeweave.orchestrator.domain import TaskStatus
from pipeweave.spec import CHILD_TASKS, ITEMS, WITH_ITEMS

# Items of a map that are listed with it.
ITEMS_SHOWN = 20
# Last lines of the log of what runs.
LINES_WHILE_RUNNING = 20
# Runs of a step that are listed with it.
RUNS_SHOWN = 20
# The values of a condition are told of runs with at most so many steps: all of them are read for that.
MOST_EVALUATED = 1_000
CONDITION_FALSE = "CONDITION_FALSE"
_FAILED = (TaskStatus.FAILED, TaskStatus.TIMEOUT)
_WAITS = (TaskStatus.PENDING, TaskStatus.READY, TaskStatus.QUEUED, TaskStatus.WAITING)


@dataclass(frozen=True, slots=True)
class Selected:
    """What is selected, with what is known of it.

    Args:
        step: its progress, as the run tells it.
        task_run: in full; None: there is no such step or item.
        why: what it waits for; None unless it waits.
        letter: its open dead letter.
        items: of a map, those that failed, else the first.
        sample: of a map with items that failed, the first of them in full.
        logged: the last lines of the log of what failed, or runs.
        speaks: of a map that runs, the item whose log that is.
        title: what it is called, where the step's id says little.
        wait: of a step that waits for a time, a signal, people or another system.
        condition: of a step that its condition has passed over: {text, values}.
        runs: of a step that runs a pipeline, its newest runs: rounds and tries.
    """

    step_id: str
    index: int | None = None
    step: Mapping[str, Any] | None = None
    task_run: Mapping[str, Any] | None = None
    why: Mapping[str, Any] | None = None
    letter: Mapping[str, Any] | None = None
    items: Sequence[Mapping[str, Any]] = ()
    title: str = ""
    wait: Mapping[str, Any] | None = None
    condition: Mapping[str, Any] | None = None
    runs: Sequence[Mapping[str, Any]] = ()
    sample: Mapping[str, Any] | None = None
    logged: Sequence[logs.LogLine] = ()
    speaks: int | None = None

    @property
    def name(self) -> str:
        """`resize`, or `resize[17]`."""
        if self.title:
            return self.title
        return self.step_id if self.index is None else f"{self.step_id}[{self.index}]"

    @property
    def traced(self) -> Traceback | None:
        """The traceback of its last error."""
        return traced(self.error)

    @property
    def error(self) -> Any:
        """Its error, or that of its last attempt; of a map, that of its first item that failed."""
        if self.task_run is None:
            return None
        if self.sample is not None:
            return self.sample["error"]
        if self.task_run["error"]:
            return self.task_run["error"]
        failed = [each["error"] for each in self.task_run["attempts"] if each["error"]]
        return failed[-1] if failed else None


def selected(view: View, run: Mapping[str, Any], step_id: str) -> Selected | None:
    """What the address selects; None: nothing."""
    if not step_id:
        return None
    step = next((each for each in run["steps"] if each["id"] == step_id), None)
    text = view.parameters.get("item", "")
    index = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
    if step is None:
        return Selected(step_id, index)
    id = step["taskRunId"] if index is None else _item(view, run["id"], step_id, index)
    if id is None:
        return Selected(step_id, index, step)
    task_run = view.ask("runs.get_task_run", id=id)
    is_map = task_run["kind"] in WITH_ITEMS
    # What a child run waits for is told by the reasons.
    is_waiting = task_run["status"] == TaskStatus.WAITING and not is_map
    is_waiting = is_waiting and task_run["taskId"] not in CHILD_TASKS
    items = _items(view, run["id"], step) if is_map else ()
    sample = view.ask("runs.get_task_run", id=items[0]["id"]) if items and step["failed"] else None
    speaker = sample or _speaker(task_run, items)
    return Selected(
        step_id,
        index,
        step,
        task_run,
        view.ask("runs.why_task_run", id=id) if task_run["status"] in _WAITS else None,
        letter(view, task_run),
        items,
        wait=waits.wait_of(view, id) if is_waiting else None,
        condition=_condition(view, run, step_id) if task_run["errorCode"] == CONDITION_FALSE else None,
        runs=_runs(view, task_run),
        sample=sample,
        logged=logs.tail_of(view, speaker, _lines_of(speaker)) if speaker else (),
        speaks=speaker["mapIndex"] if speaker and is_map and not sample else None,
    )


def _speaker(task_run: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Whose log is worth its last lines: what failed, what runs, or of a map the first item that runs."""
    if task_run["status"] in (*_FAILED, TaskStatus.RUNNING):
        return task_run
    return next((each for each in items if each["status"] == TaskStatus.RUNNING), None)


def _lines_of(task_run: Mapping[str, Any]) -> int:
    """How many of its last lines are shown beside it."""
    return LINES_WHILE_RUNNING if task_run["status"] == TaskStatus.RUNNING else logs.LINES_AT_AN_END


def _runs(view: View, task_run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The runs that a step has started, the newest first; none are asked for of one that starts none."""
    if task_run["childRunId"] is None:
        return []
    query = {"taskRunId": task_run["id"], "limit": str(RUNS_SHOWN)}
    listed: list[Mapping[str, Any]] = view.ask("runs.list_children", query, id=task_run["runId"])["runs"]
    return listed


def _condition(view: View, run: Mapping[str, Any], step_id: str) -> dict[str, Any] | None:
    """The condition of a step, and the values that it saw, as far as they can be told."""
    query = {"version": str(run["pipelineVersion"])}
    spec = view.ask("pipelines.get_pipeline", query, id=run["pipelineId"])["pipeline"]["spec"]
    # Ids are unique in the whole document, also those of steps of bodies.
    steps = (each["step"] for each in step_sentences.all_steps(spec))
    text = next((each.get("condition") for each in steps if each["id"] == step_id), None)
    if text is None:
        return None
    if len(run["steps"]) > MOST_EVALUATED:
        return {"text": text, "values": {}}
    asked = {"expression": text, "runId": run["id"], "stepId": step_id}
    return {"text": text, "values": view.ask("expressions.evaluate", body=asked)["values"]}


def _item(view: View, run_id: str, step_id: str, index: int) -> str | None:
    query = {"stepId": step_id, "mapIndex": str(index), "limit": "1"}
    task_runs = view.ask("runs.list_task_runs", query, id=run_id)["taskRuns"]
    return str(task_runs[0]["id"]) if task_runs else None


def _items(view: View, run_id: str, step: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Items of a map that are worth a look: those that failed, else the first that run, else the first."""
    status = "failed" if step["failed"] else "running" if step["status"] == "waiting" else None
    query = {"stepId": step["id"], "limit": str(ITEMS_SHOWN + 1), "status": status}
    task_runs = view.ask("runs.list_task_runs", query, id=run_id)["taskRuns"]
    return [each for each in task_runs if each["kind"] in ITEMS][:ITEMS_SHOWN]


def letter(view: View, task_run: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The open dead letter of a task run that failed."""
    if task_run["status"] not in _FAILED:
        return None
    query = {"taskRunId": task_run["id"], "limit": "1"}
    letters = view.ask("dead_letters.list_dead_letters", query)["items"]
    return letters[0] if letters else None
