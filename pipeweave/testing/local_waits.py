"""End the steps that wait, at once: by what the test gives, or by their time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pipeweave.durations import DURATION_EXPECTED, in_words, milliseconds
from pipeweave.errors import InputValidationFailed, InvalidInput, InvalidWait, TaskError
from pipeweave.schema import run_input_errors
from pipeweave.spec import NO_DEFAULT, Approval, SignalWait, Sleep, StepSpec, WaitStep
from pipeweave.suggestions import did_you_mean
from pipeweave.testing.local_answers import NOTHING, Answers, Asking

# Gives the value of a JSON value of the document: what stands in `${…}` is replaced.
Fill = Callable[[Any], Any]
# A person's decision, as a test gives it: yes or no, or `approved`, `choice`, `by`, `comment` and `form`.
Decision = bool | Mapping[str, Any]

_DECISION_KEYS = ("approved", "choice", "by", "comment", "form")


@dataclass(slots=True)
class Outside:
    """What comes from outside of a run.

    Args:
        signals: by name and payload, the oldest first; each ends one wait, and is gone then.
        decisions: of people, for approvals.
        reports: of other systems, for calls that suspend themselves.
    """

    signals: list[tuple[str, Any]]
    decisions: Answers
    reports: Answers


@dataclass(frozen=True, slots=True)
class Ended:
    """How a wait ended.

    Args:
        at: when it would have ended.
        output: of the step.
        error: why it failed; None if it did not.
        is_timeout: its time was over.
    """

    at: datetime
    output: Any = None
    error: TaskError | None = None
    is_timeout: bool = False

    @property
    def status(self) -> str:
        """Of the step."""
        if self.error is None:
            return "completed"
        return "timeout" if self.is_timeout else "failed"


def signals_of(signals: Mapping[str, Any] | Iterable[tuple[str, Any]] | None) -> list[tuple[str, Any]]:
    """The signals that a test gives, the oldest first."""
    return [*(signals.items() if isinstance(signals, Mapping) else signals or ())]


def _checked(decision: Decision, asking: StepSpec, path: str) -> Mapping[str, Any]:
    """A decision as an approval takes it.

    Raises:
        InvalidInput: it says what nobody can decide.
        InputValidationFailed: its form has mistakes.
    """
    step = asking.decides
    assert isinstance(step, Approval)
    members: dict[str, Any] = {"approved": decision} if isinstance(decision, bool) else dict(decision)
    if unknown := [each for each in members if each not in _DECISION_KEYS]:
        hint = did_you_mean(unknown[0], _DECISION_KEYS, f"a decision has {', '.join(_DECISION_KEYS)}")
        raise InvalidInput(f"{path}.{unknown[0]} is no part of a decision", hint=hint)
    approved = members.setdefault("approved", True)
    chosen = members.setdefault("choice", None if step.options else "approve" if approved else "reject")
    if step.options and chosen not in step.options:
        raise InvalidInput(f"{path}.choice must be one of {', '.join(step.options)}, not {chosen!r}")
    form = members.get("form")
    if form is not None and step.form is None:
        raise InvalidInput(f"{path}.form: the approval asks for none")
    # Who says no need not fill in what a yes needs; an option is no no.
    is_filled = bool(approved or step.options) or form is not None
    faults = run_input_errors(step.form, form) if is_filled else []
    if faults:
        named = [replace(each, field=f"{path}.form.{each.field}".rstrip(".")) for each in faults]
        raise InputValidationFailed(f"{named[0].field}: {named[0].message}", errors=named)
    return members


# Its answers are the decisions of people.
APPROVALS = Asking("approvals", "approval", lambda step: isinstance(step.decides, Approval), _checked)


def end_of(path: str, step: WaitStep, fill: Fill, start: datetime, outside: Outside) -> Ended:
    """How a wait ends: at once by what has come from outside, else when its time is over.

    Args:
        path: the id of the step, behind those of the steps that lead to its run.
        fill: gives the values of what the step says.
        start: when the wait begins.

    Raises:
        ExpressionFailed, InvalidReference: what the step says has no value.
        InvalidWait: it is no time, or no text.
    """
    match step:
        case Sleep():
            return Ended(max(start, _wakes_at(step, fill, start)))
        case SignalWait():
            names = _names([fill(each) for each in step.names])
            return _signalled(names, start, outside) or _timed_out(
                step, fill, start, f"no signal {' or '.join(map(repr, names))} came"
            )
        case Approval():
            fill([step.title, list(step.assignees), step.context])
            decision = outside.decisions.next(path)
            if decision is not NOTHING:
                return _decided(step, decision, start)
            return _timed_out(step, fill, start, "nobody decided")


def _wakes_at(step: Sleep, fill: Fill, start: datetime) -> datetime:
    if step.until is not None:
        return _moment(fill(step.until))
    value = step.ms if step.ms is not None else fill(step.seconds)
    ms = step.ms if step.ms is not None else milliseconds(value)
    if ms is None:
        raise InvalidWait(f"the step cannot sleep for {value!r}", hint=f"give {DURATION_EXPECTED}")
    return start + timedelta(milliseconds=ms)


def _moment(value: Any) -> datetime:
    try:
        moment = datetime.fromisoformat(value)
    except (ValueError, TypeError):
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidWait(
            f"the step cannot sleep until {value!r}",
            hint="give a time in ISO 8601 with its offset, such as 2030-01-31T08:00:00Z",
        )
    return moment


def _names(values: Sequence[Any]) -> list[str]:
    """The names of signals; a list among the values gives its texts."""
    names = [one for each in values for one in (each if isinstance(each, list) else [each])]
    if wrong := [each for each in names if not isinstance(each, str)]:
        raise InvalidWait(f"the name of a signal is a text, not {wrong[0]!r}"[:300])
    return names


def _signalled(names: Sequence[str], start: datetime, outside: Outside) -> Ended | None:
    """The end by the oldest signal of one of the names, which is taken; None if there is none."""
    for place, (name, payload) in enumerate(outside.signals):
        if name in names:
            del outside.signals[place]
            return Ended(start, {"name": name, "payload": payload, "by": None, "at": iso(start)})
    return None


def _decided(step: Approval, decision: Mapping[str, Any], start: datetime) -> Ended:
    shown = {each: decision.get(each) for each in ("choice", "by", "comment", "form")}
    vote = {**shown, "at": iso(start)}
    # An option is neither a yes nor a no.
    is_approved = None if step.options else bool(decision["approved"])
    if is_approved is False and step.fails_when_rejected:
        said = "" if vote["comment"] is None else f": {vote['comment']}"
        message = f"{vote['by'] or 'somebody'} rejected it{said}"
        return Ended(start, error=TaskError(message, code="REJECTED", retryable=False, details=vote))
    return Ended(start, {"approved": is_approved, **vote, "votes": [vote]})


def _timed_out(step: SignalWait | Approval, fill: Fill, start: datetime, what: str) -> Ended:
    at = start + timedelta(milliseconds=step.timeout_ms)
    if step.default is not NO_DEFAULT:
        return Ended(at, fill(step.default))
    error = TaskError(f"{what} within {in_words(step.timeout_ms)}", code="WAIT_TIMEOUT", retryable=False)
    return Ended(at, error=error, is_timeout=True)


def iso(moment: datetime) -> str:
    """A time as the API writes it: RFC 3339 in UTC, with milliseconds."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
