"""The list of tasks, one task, and the list of all task runs."""

from __future__ import annotations

from typing import Any

from pipeweave.api.ui import figures, periods
from pipeweave.api.ui.screens import ScreenPage, Screens
from pipeweave.api.ui.verbs import VERBS, Field, Verb
from pipeweave.api.ui.view import View
from pipeweave.orchestrator.domain import TaskStatus
from pipeweave.spec.unknown_tasks import BUILT_IN_TASKS

screens = Screens("tasks")

# What waits and runs is told by no event of a page.
EVERY_S = 5.0
# Failures that the page of a task lists, and versions of its code.
FAILURES = VERSIONS = 10


@screens.add("/tasks", "tasks.html", every_s=EVERY_S)
def tasks(view: View) -> ScreenPage:
    """The tenant's tasks."""
    listing = view.ask("tasks.list_tasks", view.only("cursor", limit="100"))
    ids = [each["id"] for each in listing["tasks"]]
    # Without a time, it is the last day.
    rows = view.ask_now_and_then("statistics.by_task", {"taskId": ids})["tasks"] if ids else []
    own = [each for each in listing["tasks"] if each["id"] not in BUILT_IN_TASKS]
    shown = {
        "tasks": own or listing["tasks"],
        # Those that PipeWeave brings are folded beside tasks of the user's own.
        "built_in": [each for each in listing["tasks"] if own and each["id"] in BUILT_IN_TASKS],
        "cursor": listing["nextCursor"],
        "figures": {each["taskId"]: each for each in rows},
    }
    return ScreenPage("Tasks", shown)


@screens.add("/tasks/<id>", "task.html", every_s=EVERY_S)
def task(view: View, id: str) -> ScreenPage:
    """One task: its settings, its code, what waits and runs, and what failed last."""
    document = view.ask("tasks.get_task", id=id)["task"]
    opened = view.ask("queue.queue_items", {"taskId": id, "limit": "20"})
    failed = view.ask("dead_letters.list_dead_letters", {"taskId": id, "limit": str(FAILURES)})
    history = view.ask("tasks.history", {"limit": str(VERSIONS)}, id=id)
    schema = view.ask("tasks.input_schema", id=id)
    shown = {
        "task": document,
        "open": opened["items"],
        "has_more": opened["nextCursor"] is not None,
        "failed": failed["items"],
        "history": history["history"],
        "schema": schema["schema"],
        **_statistics(view, id),
    }
    return ScreenPage(id, shown)


def _statistics(view: View, id: str) -> dict[str, Any]:
    """What its attempts came to in the period that the address names."""
    period = periods.chosen(view)
    counted = view.ask_now_and_then("statistics.tasks", {**period.query, "taskId": id})
    bars = f"{period.words}, each step {counted['bucket']}"
    return {
        "period": period.name,
        "periods": periods.PERIODS,
        "counted": counted,
        "figures": counted["summary"],
        "charts_shown": [
            figures.ends(counted, f"Attempts that ended, {bars}", figures.OUTCOMES),
            figures.durations(counted, f"How long they took, {bars}"),
            figures.durations(counted, f"How long they waited in the queue, {bars}", "waitMs"),
        ],
    }


@screens.add("/task-runs", "task_runs.html")
def task_runs(view: View) -> ScreenPage:
    """The task runs of all runs, or only standalone tasks."""
    names = ("taskId", "status", "worker", "createdAfter", "createdBefore", "cursor")
    view.require_filters(*names, "of")
    standalone = "true" if view.parameters.get("of", "standalone") == "standalone" else "false"
    listing = view.ask("runs.find_task_runs", view.only(*names, limit="50", standalone=standalone))
    shown = {
        "task_runs": listing["taskRuns"],
        "cursor": listing["nextCursor"],
        "scanned": listing["scanned"],
        "scanned_to": listing["scannedTo"],
        "statuses": [each.value for each in TaskStatus],
        "of": view.parameters.get("of", "standalone"),
        "is_filtered": view.has_any(*names),
    }
    return ScreenPage("Task runs", shown)


# --- verbs ------------------------------------------------------------------------------------------------

_REASON = Field("reason", "Reason", about="Shown wherever the task is.", flag="--reason")
VERBS.add(
    Verb(
        "tasks.pause",
        "Pause",
        "Pause this task?",
        "The task is paused.",
        command="pipeweave pause {id}",
        fields=(_REASON,),
    )
)
VERBS.add(
    Verb(
        "tasks.resume",
        "Resume",
        "Let this task run again?",
        "The task runs again.",
        command="pipeweave resume {id}",
    )
)
