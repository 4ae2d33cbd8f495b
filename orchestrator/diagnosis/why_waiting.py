"""Reasons why a step waits that no worker runs: for a time, a signal, people, or other systems."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from pipeweave.orchestrator.diagnosis.why_reasons import Reason, moment, reason
from pipeweave.orchestrator.domain.json_shapes import iso, run_id, task_run_id
from pipeweave.orchestrator.domain.waits import APPROVAL, CALLBACK, CHILD, POLL, SIGNAL, TIMER, Wait
from pipeweave.orchestrator.state import signals, waits
from pipeweave.orchestrator.state.run_endings import EndingRun
from pipeweave.orchestrator.store.database import Transaction


def waiting_reason(tx: Transaction, row: Any) -> Reason:
    """What a waiting step waits for, and the verb that ends it.

    Args:
        row: a row of why.py's query.
    """
    waiting = waits.find(tx, [(row.run_id, row.id)])
    if not waiting:
        return reason("waiting", "it waits for an event from outside and occupies no worker")
    wait = waiting[0].wait
    match wait.kind:
        case kind if kind == TIMER:
            return _sleeps(wait)
        case kind if kind == SIGNAL:
            return _for_signal(wait)
        case kind if kind == APPROVAL:
            return _for_approval(tx, wait)
        case kind if kind == CALLBACK:
            return _for_callback(wait)
        case kind if kind == POLL:
            return _polls(wait)
        case kind if kind == CHILD:
            return _for_run(tx, wait)
    return reason("waiting", f"it waits for a {wait.kind} and occupies no worker", kind=wait.kind)


def ends(ending_run: EndingRun) -> Reason:
    """What a run waits for whose steps have all ended."""
    wait, child, part = ending_run.wait, run_id(ending_run.wait.child), ending_run.part
    text = (
        f"all its steps have ended; its part {part!r} runs as {child}, until {moment(wait.timeout_at)} at"
        f" most, and then it is {ending_run.ending.status}; `pipeweave cancel` ends it at once"
    )
    numbers = {"part": part, "runId": child, "endsAs": ending_run.ending.status.value}
    return reason("ends", text, **numbers, timeoutAt=iso(wait.timeout_at))


def _sleeps(wait: Wait) -> Reason:
    text = f"it sleeps until {moment(wait.due_at)}; `pipeweave wait wake {_shown(wait)}` ends that"
    return reason("sleeps_until", text, wakesAt=iso(wait.due_at))


def _for_signal(wait: Wait) -> Reason:
    names = list(wait.names or ())
    listed = " or ".join(map(repr, names))
    text = f"it waits for the signal {listed} until {moment(wait.timeout_at)}, then {_then(wait)}"
    numbers = {"names": names, "timeoutAt": iso(wait.timeout_at), "hasDefault": "default" in wait.data}
    return reason("waits_for_signal", text, **numbers)


def _for_approval(tx: Transaction, wait: Wait) -> Reason:
    votes = signals.untaken(tx, [wait], signals.MAX_UNTAKEN).get(wait.task_run_id, [])
    assignees = wait.data["assignees"]
    whom = ", ".join(assignees) if assignees else "anybody with the scope approve"
    text = (
        f"{whom} decides about {wait.data['title']!r} ({len(votes)} of {wait.data['needs']} votes)"
        f" until {moment(wait.timeout_at)}, then {_then(wait)}; `pipeweave approve {_shown(wait)}`"
    )
    return reason(
        "waits_for_approval",
        text,
        title=wait.data["title"],
        assignees=assignees,
        votes=len(votes),
        needs=wait.data["needs"],
        timeoutAt=iso(wait.timeout_at),
        hasDefault="default" in wait.data,
    )


def _for_callback(wait: Wait) -> Reason:
    text = (
        f"another system reports to the callback URL of attempt {wait.attempt} until"
        f" {moment(wait.timeout_at)}, then the attempt fails;"
        f" `pipeweave wait resolve {_shown(wait)}` gives it a result"
    )
    return reason("waits_for_callback", text, attempt=wait.attempt, timeoutAt=iso(wait.timeout_at))


def _polls(wait: Wait) -> Reason:
    said = wait.data.get("lastAnswer")
    tries, most = wait.data["tries"], wait.data["maxTries"]
    answered = "" if said is None else f", which answered {said!r}"
    text = (
        f"{_host(wait)} is asked for the result, try {tries} of {most}{answered}; the next is due"
        f" {moment(wait.due_at)}, the end {moment(wait.timeout_at)};"
        f" `pipeweave wait resolve {_shown(wait)}` gives it a result"
    )
    return reason(
        "polls",
        text,
        tries=tries,
        maxTries=most,
        lastAnswer=said,
        nextAt=iso(wait.due_at),
        timeoutAt=iso(wait.timeout_at),
    )


def _host(wait: Wait) -> str:
    # The rest of the URL may hold a secret.
    return urlsplit(wait.data["url"]).hostname or "its URL"


_CHILD = "SELECT r.status, r.pipeline_id FROM runs AS r WHERE r.id = :id"


def _for_run(tx: Transaction, wait: Wait) -> Reason:
    child, numbers = run_id(wait.child), {"round": wait.data["round"] + 1, "attempt": wait.data["try"]}
    row: Any = tx.execute(_CHILD, {"id": wait.child}).one_or_none()
    if wait.rule is not None:
        return _handles_error(wait, child, None if row is None else row.status)
    if row is None:
        text = f"its next run {child} starts at {moment(wait.due_at)}"
        return reason("round_delay", text, runId=child, startsAt=iso(wait.due_at), **numbers)
    text = f"it waits for run {child} of {row.pipeline_id!r}, which is {row.status}; `pipeweave why {child}`"
    return reason("waits_for_run", text, runId=child, status=row.status, **numbers)


def _handles_error(wait: Wait, child: str, status: str | None) -> Reason:
    said = "starts next" if status is None else f"is {status}"
    text = f"its last attempt failed; run {child}, which takes care of it, {said}; `pipeweave why {child}`"
    return reason("handles_error", text, runId=child, status=status, handler=wait.rule)


def _then(wait: Wait) -> str:
    return "it completes with its default" if "default" in wait.data else "it fails"


def _shown(wait: Wait) -> str:
    return task_run_id(wait.task_run_id)
