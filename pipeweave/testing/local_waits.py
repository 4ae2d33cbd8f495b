"""End the steps that wait, at once: by what the test gives, or by their time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from pipeweave.durations import DURATION_EXPECTED, in_words, milliseconds
from pipeweave.errors import InputValidationFailed, InvalidInput, InvalidWait, TaskError
from pipeweave.schema import run_input_errors
from pipeweave.spec import NO_DEFAULT, Approval, PipelineSpec, SignalWait, Sleep, WaitStep
from pipeweave.suggestions import did_you_mean
from pipeweave.testing.local_definitions import Definitions

# Gives the value of a JSON value of the document: what stands in `${…}` is replaced.
Fill = Callable[[Any], Any]
# A person's decision, as a test gives it: yes or no, or `approved`, `choice`, `by`, `comment` and `form`.
Decision = bool | Mapping[str, Any]

_DECISION_KEYS = ("approved", "choice", "by", "comment", "form")
# A wrong name is answered with so many right ones, of pipelines that are so deep inside.
_MOST_NAMED, _NAMED_DEPTH = 20, 2


@dataclass(slots=True)
class Outside:
    """What comes from outside of a run.

    Args:
        signals: by name and payload, the oldest first; each ends one wait, and is gone then.
        decisions: of people, by the ids of the steps, behind those of the steps that lead to their runs; one
            for each time that a step asks, or one for all times.
    """

    signals: list[tuple[str, Any]]
    decisions: Mapping[str, list[Mapping[str, Any]] | Mapping[str, Any]]

    def decision(self, path: str) -> Mapping[str, Any] | None:
        """The next decision for a step; None if nobody decides."""
        decisions = self.decisions.get(path)
        if isinstance(decisions, list):
            return decisions.pop(0) if decisions else None
        return decisions


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


def outside_of(
    definitions: Definitions,
    signals: Mapping[str, Any] | Iterable[tuple[str, Any]] | None,
    approvals: Mapping[str, Decision | Sequence[Decision]] | None,
) -> Outside:
    """What a test gives, checked.

    Raises:
        InvalidInput: a decision names no approval, or says what nobody can decide.
        InputValidationFailed: the form of a decision has mistakes.
    """
    listed = signals.items() if isinstance(signals, Mapping) else signals or ()
    decisions: dict[str, list[Mapping[str, Any]] | Mapping[str, Any]] = {}
    for path, decision in (approvals or {}).items():
        step = _asked(definitions, definitions.root, path)
        if step is None:
            asked = list(islice(_approvals(definitions, definitions.root), _MOST_NAMED))
            hint = did_you_mean(path, asked, f"its approvals are {', '.join(asked) or 'none'}")
            raise InvalidInput(f"pipeline {definitions.root.id!r} has no approval {path!r}", hint=hint)
        if isinstance(decision, bool | Mapping):
            decisions[path] = _checked(decision, step, f"approvals.{path}")
        else:
            decisions[path] = [
                _checked(each, step, f"approvals.{path}[{place}]") for place, each in enumerate(decision)
            ]
    return Outside([(name, payload) for name, payload in listed], decisions)


def _asked(definitions: Definitions, spec: PipelineSpec, path: str) -> Approval | None:
    """The approval that a path names: `approval`, or `review.approval` in the pipeline that a step runs."""
    for step in spec.steps:
        if step.id == path and isinstance(step.decides, Approval):
            return step.decides
        inner = definitions.inside(spec, step) if path.startswith(f"{step.id}.") else None
        asked = None if inner is None else _asked(definitions, inner, path[len(step.id) + 1 :])
        if asked is not None:
            return asked
    return None


def _approvals(
    definitions: Definitions, spec: PipelineSpec, before: str = "", depth: int = 0
) -> Iterator[str]:
    """The paths of the approvals, for people: those of the pipeline itself, and some levels below."""
    yield from (before + each.id for each in spec.steps if isinstance(each.decides, Approval))
    for step in spec.steps if depth < _NAMED_DEPTH else ():
        inner = definitions.inside(spec, step)
        if inner is not None:
            yield from _approvals(definitions, inner, f"{before}{step.id}.", depth + 1)


def _checked(decision: Decision, step: Approval, path: str) -> Mapping[str, Any]:
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
            decision = outside.decision(path)
            if decision is not None:
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
