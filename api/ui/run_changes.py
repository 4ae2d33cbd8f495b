"""What changed: a run beside the last one of its pipeline that completed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipeweave.api.ui.run_step import Selected
from pipeweave.api.ui.view import View
from pipeweave.errors import NotFound
from pipeweave.orchestrator.domain import RunStatus, json_differences

# Runs among which a page looks for the last one that completed: it costs no more where all have failed.
LOOKED_AT = 50
DIFFERENCES_SHOWN = 200
_ENDED_BADLY = (RunStatus.FAILED.value, RunStatus.PARTIAL.value)

Run = Mapping[str, Any]
Shown = dict[str, Any]


def around(view: View, run: Run) -> Shown:
    """The runs of the same pipeline before and after this one; and of one that ended badly, what has changed
    since the last that completed: {before, after, since}.
    """
    if run["body"] is not None:
        # Runs of its pipeline have other steps.
        return {"before": None, "after": None, "since": None}
    is_bad = run["status"] in _ENDED_BADLY
    query = {"pipelineId": run["pipelineId"], "createdBefore": run["createdAt"]}
    listed = view.ask("runs.list_runs", {**query, "limit": str(LOOKED_AT if is_bad else 1)})["runs"]
    good = next((each for each in listed if each["status"] == "completed"), None)
    since = _since(view, run, good) if is_bad and good is not None else None
    return {"before": listed[0]["id"] if listed else None, "after": _after(view, run), "since": since}


def _after(view: View, run: Run) -> str | None:
    query = {"runs": "1", "steps": "1", "after": run["id"]}
    try:
        runs = view.ask("pipelines.get_grid", query, id=run["pipelineId"])["runs"]
    except NotFound:
        return None
    return str(runs[0]["id"]) if runs else None


def _since(view: View, run: Run, good: Run) -> Shown:
    """{run, isSameInput, from, to, steps, code}: the versions, how many of their steps differ, and the steps
    whose task had other code, with that of then and that of this run.
    """
    other = view.ask("runs.get_run", {"taskRuns": "0"}, id=good["id"])
    versions = {each["id"]: each["codeVersion"] for each in other["steps"]}
    return {
        "run": good,
        "isSameInput": run["inputsHash"] == other["inputsHash"],
        "from": good["pipelineVersion"],
        "to": run["pipelineVersion"],
        "steps": steps_between(view, run["pipelineId"], good["pipelineVersion"], run["pipelineVersion"]),
        "code": {
            each["id"]: (versions[each["id"]], each["codeVersion"])
            for each in run["steps"]
            if versions.get(each["id"], each["codeVersion"]) != each["codeVersion"]
        },
    }


def steps_between(view: View, pipeline_id: str, before: int, after: int) -> int:
    """How many steps were added, removed or changed from one version to the other."""
    if before == after:
        return 0
    differences = view.ask("graphs.get_differences", id=pipeline_id, before=str(before), after=str(after))
    return sum(len(differences[name]) for name in ("added", "removed", "changed"))


# --- values -----------------------------------------------------------------------------------------------


def values_since(view: View, run: Run, chosen: Selected | None) -> Shown:
    """How input and output differ from those of the last run that completed: {other, parts, code}."""
    if run["body"] is not None:
        return {"other": None}
    query = {
        "pipelineId": run["pipelineId"],
        "status": "completed",
        "createdBefore": run["createdAt"],
        "limit": "1",
    }
    runs = view.ask("runs.list_runs", query)["runs"]
    if not runs:
        return {"other": None}
    other = view.ask("runs.get_run", {"taskRuns": "0"}, id=runs[0]["id"])
    if chosen is None or chosen.task_run is None:
        parts = [_part("Input", other, run, "input"), _part("Output", other, run, "output")]
        return {"other": other, "parts": parts, "code": None}
    before = _same_step(view, other, chosen)
    if before is None:
        return {"other": None}
    after = chosen.task_run
    code = before["codeVersion"], after["codeVersion"]
    return {"other": other, "parts": list(_parts(before, after)), "code": code}


def _same_step(view: View, other: Run, chosen: Selected) -> Run | None:
    """What the selected step, or item, was in the other run."""
    step = next((each for each in other["steps"] if each["id"] == chosen.step_id), None)
    if step is None:
        return None
    id = step["taskRunId"]
    if chosen.index is not None:
        query = {"stepId": chosen.step_id, "mapIndex": str(chosen.index), "limit": "1"}
        items = view.ask("runs.list_task_runs", query, id=other["id"])["taskRuns"]
        if not items:
            return None
        id = items[0]["id"]
    task_run: Run = view.ask("runs.get_task_run", id=id)
    return task_run


def _parts(before: Run, after: Run) -> Iterator[Shown]:
    for title, name in (("Item", "item"), ("Parameters", "params")):
        if before[name] is not None or after[name] is not None:
            yield _part(title, before, after, name)
    if "run" in (before["inputSource"], after["inputSource"]):
        yield _part("Input", before, after, "input")
    yield _part("Output", before, after, "output")


def _part(title: str, before: Run, after: Run, name: str) -> Shown:
    """One value: {title, isStored, listed, isComplete}; a value in storage is compared by its hash."""
    stored = [each.get(f"{name}Ref") for each in (before, after)]
    if any(stored):
        hashes = [each and each.get("hash") for each in stored]
        is_same = hashes[0] is not None and hashes[0] == hashes[1]
        return {"title": title, "isStored": not is_same, "listed": [], "isComplete": True}
    listed, is_complete = json_differences.differences(before[name], after[name], DIFFERENCES_SHOWN)
    return {"title": title, "isStored": False, "listed": listed, "isComplete": is_complete}
