"""Queues: what waits in each of them, the limits of tasks and who holds their slots, and the line itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from pipeweave.api.ui.screens import ScreenPage, Screens
from pipeweave.api.ui.verbs import VERBS, Effects, Field, Verb
from pipeweave.api.ui.view import View

screens = Screens("queues")

EVERY_S = 2.0
ON_A_PAGE = 25
STATUSES = ("pending", "ready", "queued", "running", "waiting")
FILTERS = ("status", "taskId")
_REASON = Field("reason", "Reason", about="Shown wherever a task run waits for it.", flag="--reason")


def _pauses(view: View, ids: Mapping[str, str], body: Any) -> Effects:
    status = view.ask("queue.queue_status")
    waits = "1 task run waits" if status["pending"] == 1 else f"{status['pending']:,} task runs wait"
    return Effects([f"starts nothing more of this tenant: {waits}; {status['running']:,} that run go on"])


def _limits(view: View, ids: Mapping[str, str], body: Any) -> Effects:
    task = view.ask("tasks.get_task", id=ids["id"])["task"]
    declared = f"{task['declaredConcurrency'] or 'any number'} at once"
    rate = task["declaredRateLimit"]
    sentences = [f"the code of `{task['id']}` declares {declared}{f', {rate}' if rate else ''}"]
    if "concurrency" not in body and "rateLimit" not in body:
        sentences.append("what the code declares holds")
    else:
        now = body.get("concurrency", task["declaredConcurrency"])
        sentences.append(f"from now on {now or 'any number'} at once, across deployments; what runs goes on")
    return Effects(sentences)


VERBS.add(
    Verb(
        "queue.pause",
        "Pause the tenant",
        "Pause all tasks of this tenant?",
        "The tenant is paused.",
        command="pipeweave pause",
        fields=(_REASON,),
        effects=_pauses,
        is_dangerous=True,
    ),
    "queues",
)
VERBS.add(
    Verb(
        "queue.resume",
        "Resume the tenant",
        "Resume all tasks of this tenant?",
        "The tenant is resumed.",
        command="pipeweave resume",
    ),
    "queues",
)
VERBS.add(
    Verb(
        "tasks.put_limits",
        "Set limits",
        "Set the limits of this task?",
        "The limits hold from now on.",
        command="pipeweave tasks limits {id}",
        fields=(
            Field(
                "concurrency",
                "At once",
                "number",
                "`0` is no limit; empty is what the code declares.",
                flag="--concurrency",
            ),
            Field(
                "rateLimit",
                "Starts in a time",
                about="Such as `100/m`; `none` is no limit; empty is what the code declares.",
                flag="--rate",
            ),
            Field("reason", "Reason", about="Shown with the task.", flag="--reason"),
        ),
        effects=_limits,
    ),
    "queues",
)
VERBS.add(
    Verb(
        "queue.put_limits",
        "Limit active runs",
        "Limit the active runs of this tenant?",
        "The limit holds from now on.",
        command="pipeweave limits",
        body={"maxActiveRuns": None},
        fields=(
            Field("maxActiveRuns", "Active runs", "number", "Empty: no limit.", flag="--max-active-runs"),
        ),
    ),
    "queues",
)


@screens.add("/queues", "queues.html", every_s=EVERY_S)
def queues(view: View) -> ScreenPage:
    """The queues or one of them, the limits, and the open task runs in the order in which they start."""
    view.require_filters(*FILTERS, "queue", "queues")
    status = view.ask("queue.queue_status")
    wanted = view.only(*FILTERS, "queue", "cursor", limit=str(ON_A_PAGE), reasons="true")
    items = view.ask("queue.queue_items", wanted)
    name = view.parameters.get("queue")
    shown = {
        "status": status,
        "limits": view.ask("queue.get_limits"),
        "items": items["items"],
        "cursor": items["nextCursor"],
        "statuses": STATUSES,
        "paused_tasks": set(status["pausedTasks"]),
        "queue": view.ask("queue.get_queue", queue=name) if name else None,
        "queues": [],
        "more_queues": None,
        "busy": None,
        "is_filtered": view.has_any(*FILTERS),
    }
    named = [name] if name else []
    if not name:
        listing = view.ask("queue.list_queues", view.only("queues=cursor", limit="100"))
        shown |= {"queues": listing["queues"], "more_queues": listing["nextCursor"]}
        named = [each["queue"] for each in listing["queues"]]
    shown["left"] = _left(view, named)
    if not (items["items"] or shown["is_filtered"] or name):
        shown["busy"] = _last_busy(view)
    title = f"Queue {shown['queue']['name']}" if shown["queue"] else "Queues"
    return ScreenPage(title, shown, status="paused" if status["pausedAt"] else None)


def _left(view: View, names: Sequence[str]) -> Mapping[str, Any]:
    """By queue, what left it in the last hour; asked for by name, so that the order does not matter."""
    query = {"queue": sorted(names)}
    rows = view.ask_now_and_then("statistics.by_queue", query)["queues"] if names else ()
    return {each["queue"]: each for each in rows}


def _last_busy(view: View) -> Mapping[str, Any] | None:
    """The last hour of the week in which attempts ended; None without any."""
    # From a full hour on, so that the page asks the same when it looks again.
    since = (view.now - timedelta(days=7)).replace(minute=0, second=0, microsecond=0)
    series = view.ask_now_and_then("statistics.tasks", {"from": since.isoformat(), "bucket": "1h"})
    return next((each for each in reversed(series["points"]) if each["attempts"]), None)
