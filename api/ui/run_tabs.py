"""What the tabs of a run's screen show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeweave.api.ui import logs, run_changes, run_log
from pipeweave.api.ui.event_sentences import Names, said
from pipeweave.api.ui.run_gantt import gantt_of
from pipeweave.api.ui.run_step import Selected
from pipeweave.api.ui.view import View
from pipeweave.errors import LimitExceeded, NotFound
from pipeweave.orchestrator.domain import TaskStatus
from pipeweave.spec import CALLED, WITH_ITEMS

STEPS_A_PAGE = 200
EVENTS_A_PAGE = "100"
ATTEMPTS_A_PAGE = "100"
# Steps whose logs a page offers, those that failed first.
LOGS_LISTED = 200
ATTEMPT_STATUSES = (
    *("failed", "timeout", "lost", "interrupted", "cancelled", "running", "waiting", "completed"),
)

Run = Mapping[str, Any]
Shown = dict[str, Any]


def steps(view: View, run: Run, chosen: Selected | None) -> Shown:
    """The table of steps: by status and text, in the order of the pipeline."""
    status, text = view.parameters.get("status", ""), view.parameters.get("find", "").casefold()
    matches = [each for each in run["steps"] if _fits(each, status, text)]
    begin = _number(view.parameters.get("begin"))
    shown = matches[begin : begin + STEPS_A_PAGE]
    return {
        "steps": shown,
        "gantt": gantt_of(view, run, shown),
        "is_narrowed": bool(status or text),
        "step_count": len(matches),
        "begin": begin,
        "next_begin": begin + STEPS_A_PAGE if begin + STEPS_A_PAGE < len(matches) else None,
        "before_begin": max(0, begin - STEPS_A_PAGE) if begin else None,
        "statuses": [each.value for each in TaskStatus],
    }


def _fits(step: Mapping[str, Any], status: str, text: str) -> bool:
    is_status = not status or step["status"] == status or (status == "failed" and step["failed"] > 0)
    return is_status and (not text or text in step["id"].casefold() or text in step["taskId"].casefold())


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else 0


# --- events -----------------------------------------------------------------------------------------------


def events(view: View, run: Run, chosen: Selected | None) -> Shown:
    """A page of events, by attempt or one by one; and the run as it was at one of them."""
    task_run = None if chosen is None or chosen.task_run is None else chosen.task_run["id"]
    query = view.only("type", "cursor", limit=EVENTS_A_PAGE, taskRunId=task_run)
    page = view.ask("runs.list_events", query, id=run["id"])
    mapped = {"type": "task_run.mapped", "limit": EVENTS_A_PAGE}
    maps = view.ask("runs.list_events", mapped, id=run["id"])["events"] if _has_maps(run) else ()
    names = Names(run["steps"], maps)
    listed = _with_sentences(page["events"], names)
    at, state = view.parameters.get("at", ""), None
    if at.isascii() and at.isdigit():
        try:
            state = view.ask("run_questions.state_at", {"seq": at}, id=run["id"])
        except LimitExceeded as error:
            state = {"refused": error.detail}
    return {
        "events": listed,
        "cursor": page["nextCursor"],
        "groups": [] if view.parameters.get("raw") else _groups(listed),
        "state": state,
        "around": _around(listed, state),
        "types": EVENT_TYPES,
    }


EVENT_TYPES = (
    *("run.created", "run.running", "run.paused", "run.resumed", "run.completed", "run.partial"),
    *("run.failed", "run.cancelled", "run.reopened", "task_runs.queued", "task_runs.ready"),
    *("task_run.started", "task_run.dispatched", "task_run.completed", "task_run.failed"),
    *("task_run.timed_out", "task_run.retrying", "task_run.mapped", "task_run.reopened"),
    *("task_runs.skipped", "task_runs.cancelled", "task_runs.reopened"),
)


def _has_maps(run: Run) -> bool:
    return any(each["kind"] in WITH_ITEMS for each in run["steps"])


def _with_sentences(listed: Sequence[Mapping[str, Any]], names: Names) -> list[Shown]:
    """These events with what they are about and what is said of it."""
    began = {
        (each["taskRunId"], each["attempt"]): each["at"]
        for each in listed
        if each["type"] == "task_run.started"
    }
    return [
        {
            **each,
            "name": names.of(each["taskRunId"]),
            "says": said(each, names, began.get((each["taskRunId"], each["attempt"]))),
        }
        for each in listed
    ]


def _groups(listed: Sequence[Mapping[str, Any]]) -> list[Shown]:
    """The events of each attempt together; those of the run between them, in their order."""
    by_attempt: dict[tuple[Any, Any], list[Mapping[str, Any]]] = {}
    for each in listed:
        # Events about the whole run stay apart, so that their place in time is seen.
        key = (each["taskRunId"] or each["seq"], each["attempt"])
        by_attempt.setdefault(key, []).append(each)
    return [{"events": group} for group in by_attempt.values()]


def _around(listed: Sequence[Mapping[str, Any]], state: Mapping[str, Any] | None) -> Shown:
    """The events before and after the one that is looked at, on this page."""
    numbers = [each["seq"] for each in listed]
    if state is None or "seq" not in state or not numbers:
        return {"before": None, "after": None, "place": None, "count": len(numbers)}
    before = [each for each in numbers if each < state["seq"]]
    after = [each for each in numbers if each > state["seq"]]
    return {
        "before": before[-1] if before else None,
        "after": after[0] if after else None,
        "place": len(numbers) - len(after),
        "count": len(numbers),
    }


# --- data -------------------------------------------------------------------------------------------------


def data(view: View, run: Run, chosen: Selected | None) -> Shown:
    """Input and output of the run, or of the selected step; how they differ from the last good run's."""
    subject = run if chosen is None or chosen.task_run is None else chosen.task_run
    shown: Shown = {"subject": subject, "is_step": subject is not run, "diff": None}
    if view.parameters.get("diff") == "last":
        shown["diff"] = run_changes.values_since(view, run, chosen)
    return shown


# --- log, attempts, why -----------------------------------------------------------------------------------


def log(view: View, run: Run, chosen: Selected | None) -> Shown:
    """The log of the whole run by time; or, with a step, of that: of a map, of its first item that failed."""
    logged = [each for each in run["steps"] if each["startedAt"] and each["kind"] in (*CALLED, *WITH_ITEMS)]
    logged.sort(key=lambda each: not each["failed"])
    shown: Shown = {"log": None, "merged": None, "loggable": logged[:LOGS_LISTED]}
    if chosen is None or view.parameters.get("merged") == "1":
        step = None if chosen is None else chosen.step_id
        return {**shown, "merged": run_log.of_run(view, run, step)}
    subject = chosen.sample or chosen.task_run
    if chosen.sample is None and chosen.items and chosen.index is None:
        subject = view.ask("runs.get_task_run", id=chosen.items[0]["id"])
    return {**shown, "log": None if subject is None else logs.of_task_run(view, subject)}


def attempts(view: View, run: Run, chosen: Selected | None) -> Shown:
    """A page of attempts, of all steps or of the selected one."""
    step = None if chosen is None or chosen.step is None else chosen.step_id
    query = view.only("status", "cursor", limit=ATTEMPTS_A_PAGE, stepId=step)
    page = view.ask("run_questions.list_attempts", query, id=run["id"])
    return {
        "attempts": page["attempts"],
        "failed_of": {each["id"]: each["failed"] for each in run["steps"] if each["kind"] in WITH_ITEMS},
        "cursor": page["nextCursor"],
        "statuses": ATTEMPT_STATUSES,
    }


def why(view: View, run: Run, chosen: Selected | None) -> Shown:
    """What the open task runs wait for, summed."""
    try:
        return {"reasons": view.ask("run_questions.why", id=run["id"])}
    except NotFound:
        return {"reasons": None}
