"""Decides whether a wait ends, and how (pure): one table for all kinds.

| kind | ends when | gives |
|---|---|---|
| timer | its time has come | null |
| signal | a signal of one of its names came | `{name, payload, by, at}` |
| approval | enough voters agree, or one says no | `{approved, choice, by, at, comment, form, votes}` |
| callback | the other system has reported | the result, or the attempt fails with ASYNC_FAILED |
| poll | the other system has answered, or was asked often enough | the answer, or the attempt fails |
| child | its run has ended: see children.py | the output of the run |
| any | its time is over first | its default, or the step fails with WAIT_TIMEOUT |

What came before the time was over counts, however late it is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from pipeweave import async_reports
from pipeweave.async_reports import ASYNC_FAILED
from pipeweave.durations import in_words
from pipeweave.orchestrator.domain.failure import TIMEOUT_MS, Failure, Outcome
from pipeweave.orchestrator.domain.json_shapes import iso
from pipeweave.orchestrator.domain.task_run import KeptValue
from pipeweave.orchestrator.domain.waits import (
    APPROVAL,
    CALLBACK,
    NEVER,
    POLL,
    SIGNAL,
    SUSPENDED,
    TIMER,
    Signal,
    Wait,
)

REJECTED, WAIT_TIMEOUT, POLL_TRIES_EXCEEDED = "REJECTED", "WAIT_TIMEOUT", "POLL_TRIES_EXCEEDED"
DEFAULT, REPAIR = "default", "repair"
APPROVE, REJECT = "approve", "reject"


@dataclass(frozen=True, slots=True)
class Later:
    """Nothing has come yet: look again at this time, or when something comes."""

    due_at: datetime


@dataclass(frozen=True, slots=True)
class Completes:
    """The step completes.

    Args:
        cause: what ended the wait: its kind, `default`, or `repair`.
        by: who did; None where nobody did, or it is not known.
        signals: those that it takes.
        stored: the signal whose payload is in storage, and belongs into the output.
        kept: the output, if it was stored before.
        came_at: when what ended it had come; None where somebody ended it by hand.
    """

    output: Any
    cause: str
    by: str | None = None
    signals: tuple[UUID, ...] = ()
    stored: Signal | None = None
    kept: KeptValue | None = None
    came_at: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Fails:
    """The step fails."""

    failure: Failure
    signals: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class GoesOn:
    """The step waits for another run: the next round of a loop, or the next try.

    Args:
        data: of the wait from now on.
        due_at: when that run starts.
    """

    data: Mapping[str, Any]
    due_at: datetime


@dataclass(frozen=True, slots=True)
class Starts:
    """The run that it waits for starts now."""


Ending = Later | Completes | Fails | GoesOn | Starts


def decide(wait: Wait, signals: Sequence[Signal], now: datetime) -> Ending:
    """What becomes of an open wait now.

    Args:
        signals: those that it may take, oldest first.
    """
    in_time = [each for each in signals if each.sent_at < wait.timeout_at]
    decision = _BY_KIND[wait.kind](wait, in_time, now) if wait.kind in _BY_KIND else None
    if decision is not None:
        return decision
    if now < wait.timeout_at:
        return Later(wait.timeout_at)
    if "default" in wait.data:
        return Completes(wait.data["default"], DEFAULT, came_at=wait.timeout_at)
    return Fails(_timed_out(wait))


def _timer(wait: Wait, signals: Sequence[Signal], now: datetime) -> Ending:
    if now < wait.due_at:
        return Later(wait.due_at)
    return Completes(None, TIMER, came_at=wait.due_at)


def _signal(wait: Wait, signals: Sequence[Signal], now: datetime) -> Ending | None:
    if not signals:
        return None
    first = signals[0]
    stored = None if first.payload_path is None else first
    output = output_of(first, first.payload)
    return Completes(output, SIGNAL, first.sent_by, (first.id,), stored, came_at=first.sent_at)


def output_of(signal: Signal, payload: Any) -> Any:
    """The output of a step that a signal ended: itself, or the result that a suspended call waited for."""
    if signal.name.startswith((f"{CALLBACK}:", f"{POLL}:")):
        return None if payload is None else async_reports.result_of(payload)
    return {"name": signal.name, "payload": payload, "by": signal.sent_by, "at": iso(signal.sent_at)}


def _approval(wait: Wait, votes: Sequence[Signal], now: datetime) -> Ending | None:
    counts: dict[str, int] = {}
    for number, vote in enumerate(votes, start=1):
        choice = vote.payload["choice"]
        counts[choice] = counts.get(choice, 0) + 1
        is_rejected = choice == REJECT and not wait.data["options"]
        if is_rejected or counts[choice] >= wait.data["needs"]:
            return _decided(wait, vote, votes[:number], is_rejected=is_rejected)
    return None


def _decided(wait: Wait, last: Signal, votes: Sequence[Signal], *, is_rejected: bool) -> Ending:
    taken = tuple(each.id for each in votes)
    comment = last.payload.get("comment")
    if is_rejected and wait.data["failsWhenRejected"]:
        said = "" if comment is None else f": {comment}"
        message = f"{last.sent_by or 'somebody'} rejected it{said}"
        return Fails(Failure(REJECTED, message, "Rejected", retryable=False, details=vote_of(last)), taken)
    output = {
        # An option is neither a yes nor a no.
        "approved": None if wait.data["options"] else not is_rejected,
        **vote_of(last),
        "votes": [vote_of(each) for each in votes],
    }
    return Completes(output, APPROVAL, last.sent_by, taken, came_at=last.sent_at)


def vote_of(signal: Signal) -> dict[str, Any]:
    """A vote as outputs and answers show it."""
    said = signal.payload
    return {
        "choice": said["choice"],
        "by": signal.sent_by,
        "at": iso(signal.sent_at),
        "comment": said.get("comment"),
        "form": said.get("form"),
    }


def _callback(wait: Wait, reports: Sequence[Signal], now: datetime) -> Ending | None:
    if not reports:
        return None
    first = reports[0]
    if first.payload_path is not None:
        # Only a result is large.
        return Completes(None, wait.kind, None, (first.id,), first, came_at=first.sent_at)
    if (message := async_reports.message_of(first.payload)) is not None:
        details = first.payload["details"]
        return Fails(Failure(ASYNC_FAILED, message, "AsyncFailed", details=details), (first.id,))
    result = async_reports.result_of(first.payload)
    return Completes(result, wait.kind, None, (first.id,), came_at=first.sent_at)


def _poll(wait: Wait, answers: Sequence[Signal], now: datetime) -> Ending | None:
    if answers:
        return _callback(wait, answers, now)
    if now >= wait.timeout_at or now < wait.due_at:
        return None if now >= wait.timeout_at else Later(wait.due_at)
    most = wait.data["maxTries"]
    # The last try had its interval to be answered in.
    if wait.data["tries"] >= most:
        details = {"lastAnswer": wait.data.get("lastAnswer")}
        message = f"Max poll attempts ({most}) exceeded"
        return Fails(Failure(POLL_TRIES_EXCEEDED, message, "PollTriesExceeded", details=details))
    return Later(wait.due_at)


def _timed_out(wait: Wait) -> Failure:
    limit_ms = round((wait.timeout_at - wait.created_at).total_seconds() * 1000)
    what = {
        SIGNAL: f"no signal {' or '.join(map(repr, wait.names or ()))} came",
        APPROVAL: "nobody decided",
        CALLBACK: "nobody reported to the callback URL",
        POLL: "the polled URL gave no final answer",
    }.get(wait.kind, "what it waits for did not come")
    return Failure(
        WAIT_TIMEOUT,
        f"{what} within {in_words(limit_ms)}",
        "WaitTimeout",
        details={TIMEOUT_MS: limit_ms},
        # A call may be made again; what people were asked is not asked again.
        retryable=wait.kind in SUSPENDED,
        outcome=Outcome.TIMEOUT,
    )


_BY_KIND: Mapping[str, Callable[[Wait, Sequence[Signal], datetime], Ending | None]] = {
    TIMER: _timer,
    SIGNAL: _signal,
    APPROVAL: _approval,
    CALLBACK: _callback,
    POLL: _poll,
}


def timeout_of(wait: Wait) -> datetime | None:
    """When a wait ends whatever comes; None for one without such a time."""
    return None if wait.timeout_at >= NEVER else wait.timeout_at
