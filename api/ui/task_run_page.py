"""The screen of a task run: of a step, the screen of its run with the step selected; of a standalone task, a
screen of its own.
"""

from __future__ import annotations

from typing import Any

from pipeweave.api.ui import logs
from pipeweave.api.ui.run_step import Selected, letter
from pipeweave.api.ui.screens import Redirect, ScreenPage, Screens
from pipeweave.api.ui.verbs import REASON, VERBS, Verb
from pipeweave.api.ui.view import View
from pipeweave.orchestrator.domain import TaskStatus

screens = Screens("runs")

TABS = (("overview", "Overview"), ("data", "Data"), ("log", "Log"))
# No event tells of progress.
PROGRESS_S = 2.0

VERBS.add(
    Verb(
        "runs.cancel_task_run",
        "Cancel task",
        "Cancel this task run?",
        "The task run is cancelled.",
        command="pipeweave cancel {id}",
        fields=(REASON,),
        is_dangerous=True,
    )
)


@screens.add("/task-runs/<id>", "task_run.html", every_s=PROGRESS_S)
def task_run(view: View, id: str) -> ScreenPage | Redirect:
    """One task run."""
    document = view.ask("runs.get_task_run", id=id)
    if document["runId"] is not None:
        kept = {name: view.parameters.get(name) for name in ("tab", "attempt", "line", "find", "level")}
        item = document["mapIndex"]
        return Redirect(view.url(f"/runs/{document['runId']}", **kept, step=document["stepId"], item=item))
    tab = view.parameters.get("tab", "")
    tab = tab if tab in dict(TABS) else TABS[0][0]
    is_open = not TaskStatus(document["status"]).is_final
    why = view.ask("runs.why_task_run", id=id) if is_open and document["status"] != "running" else None
    chosen = Selected(
        document["stepId"],
        None,
        _progress(document),
        document,
        why,
        letter(view, document),
        title=document["taskId"],
    )
    shown = {
        "tabs": TABS,
        "tab": tab,
        "selected": chosen,
        "is_open": is_open,
        "subject": document,
        "is_step": True,
        "diff": None,
        "log": logs.of_task_run(view, document) if tab == "log" else None,
    }
    return ScreenPage(document["taskId"], shown, document["status"])


def _progress(task_run: dict[str, Any]) -> dict[str, Any]:
    """What a run would tell of its only step."""
    return {
        "id": task_run["stepId"],
        "taskRunId": task_run["id"],
        "kind": task_run["kind"],
        "status": task_run["status"],
        "failed": int(task_run["status"] in ("failed", "timeout")),
        "durationMs": task_run["durationMs"],
    }
