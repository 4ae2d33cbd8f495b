"""Begins waits: a step that waits for a time, a signal or people becomes `waiting`, with a row of `waits`.

No task, no worker and no message is behind such a step. `waits/looking.py` ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from pipeweave import ids
from pipeweave.durations import DURATION_EXPECTED, milliseconds
from pipeweave.errors import AttemptFailed, InvalidInput, InvalidWait
from pipeweave.json_values import json_type
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.domain.waits import (
    APPROVAL,
    CHILD,
    NEVER,
    OWN_NAMES,
    SIGNAL,
    TIMER,
    NewWait,
    approval_name,
)
from pipeweave.orchestrator.state import waits
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.values import canonical
from pipeweave.size_limits import INLINE_BYTES
from pipeweave.spec.child_steps import ChildStep
from pipeweave.spec.wait_steps import (
    MAX_ASSIGNEES,
    MAX_NAMES,
    MAX_WAIT_MS,
    NO_DEFAULT,
    Approval,
    SignalWait,
    Sleep,
    WaitStep,
)

MAX_NAME_CHARS = 200
MAX_TITLE_CHARS = 1_000

# Gives the value of a JSON value of the pipeline's document: what stands in `${…}` is replaced.
Resolve = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Begun:
    """What became of steps that were to wait.

    Args:
        waiting: those that wait now; one that another transaction has decided is not among them.
        failed: by ordinal, why a step cannot wait; nothing was written for it.
    """

    waiting: Sequence[TaskRun]
    failed: Mapping[int, AttemptFailed | InvalidInput] = field(default_factory=dict)


def begin(tx: Transaction, run: RunHeader, ordinals: Iterable[int], resolve: Resolve) -> Begun:
    """Let pending steps of the kind `wait` wait from now on.

    Args:
        resolve: gives the values of what the steps say; it raises AttemptFailed where there is none.
    """
    new: list[NewWait] = []
    failed: dict[int, AttemptFailed | InvalidInput] = {}
    for ordinal in ordinals:
        try:
            new.append(new_wait(run, ordinal, resolve, tx.now))
        except (AttemptFailed, InvalidInput) as error:
            failed[ordinal] = error
    return Begun(waits.begin(tx, run, new), failed)


def begin_items(tx: Transaction, run: RunHeader, items: Iterable[TaskRun]) -> None:
    """Let items of a map of pipelines wait for their child runs."""
    new = [NewWait(each.id, CHILD, None, tx.now, NEVER, first_child(tx.now)) for each in items]
    waits.begin(tx, run, new)


def new_wait(run: RunHeader, ordinal: int, resolve: Resolve, now: datetime) -> NewWait:
    """The wait that a step of the kind `wait` begins.

    Args:
        resolve: as for `begin`.
        now: when it begins.

    Raises:
        InvalidWait: the step's values are no time, name or person, or too many.
        AttemptFailed, InvalidInput: a value cannot be made.
    """
    step: WaitStep | ChildStep = run.plan[ordinal].step.decides  # type: ignore[assignment]
    task_run_id = ids.task_run_id(run.id, ordinal)
    if isinstance(step, ChildStep):
        return NewWait(task_run_id, CHILD, None, now, NEVER, first_child(now))
    if isinstance(step, Sleep):
        until = _wakes_at(step, resolve, now)
        return NewWait(task_run_id, TIMER, None, until, until, {})
    timeout_at = now + timedelta(milliseconds=step.timeout_ms)
    default = {} if step.default is NO_DEFAULT else {"default": resolve(step.default)}
    if isinstance(step, SignalWait):
        names = _names([resolve(each) for each in step.names])
        return NewWait(task_run_id, SIGNAL, names, now, timeout_at, _bounded(default))
    data = {**_question(step, resolve), **default}
    return NewWait(task_run_id, APPROVAL, (approval_name(task_run_id),), now, timeout_at, _bounded(data))


def first_child(now: datetime) -> dict[str, Any]:
    """What the wait for a child has as data: the child's id, which starts after the commit; the round of
    a loop, from 0; and the try, from 1, where the step is retried.
    """
    return {"run": str(ids.new_id(int(now.timestamp() * 1000))), "round": 0, "try": 1}


# --- times ------------------------------------------------------------------------------------------------


def _wakes_at(step: Sleep, resolve: Resolve, now: datetime) -> datetime:
    if step.until is not None:
        return _moment(resolve(step.until), now)
    ms = step.ms if step.seconds is None else milliseconds(seconds := resolve(step.seconds))
    if ms is None:
        raise InvalidWait(f"the step cannot sleep for {seconds!r}", hint=f"give {DURATION_EXPECTED}")
    return now + timedelta(milliseconds=ms)


def _moment(value: Any, now: datetime) -> datetime:
    """A time in ISO 8601. One that has passed ends the wait at once."""
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (ValueError, TypeError):
        raise InvalidWait(
            f"the step cannot sleep until {value!r}",
            hint="give a time in ISO 8601 with its offset, such as 2030-01-31T08:00:00Z",
        ) from None
    if moment.tzinfo is None:
        raise InvalidWait(f"{value!r} has no offset", hint="end it with Z, or an offset such as +01:00")
    if moment - now > timedelta(milliseconds=MAX_WAIT_MS):
        raise InvalidWait(f"{value!r} is more than 366 days away")
    return moment


# --- what is waited for -----------------------------------------------------------------------------------


def _names(values: Sequence[Any]) -> tuple[str, ...]:
    names = _texts(values, "the name of a signal", MAX_NAME_CHARS)
    if not 1 <= len(names) <= MAX_NAMES:
        raise InvalidWait(f"the step waits for {len(names)} signals; it takes 1 to {MAX_NAMES} names")
    if own := next((each for each in names if each.startswith(OWN_NAMES)), None):
        raise InvalidWait(f"{own!r} cannot be the name of a signal", hint="such names are of the engine")
    return names


def _texts(values: Iterable[Any], what: str, longest: int) -> tuple[str, ...]:
    """Each text once; a list among the values gives its texts."""
    flat = [one for each in values for one in (each if isinstance(each, list) else [each])]
    for each in flat:
        if not isinstance(each, str):
            raise InvalidWait(f"{what} is a text, not {json_type(each)}")
        if not 1 <= len(each) <= longest:
            raise InvalidWait(f"{what} has 1 to {longest} characters, not {len(each)}")
    return tuple(dict.fromkeys(flat))


def _question(step: Approval, resolve: Resolve) -> dict[str, Any]:
    assignees = _texts((resolve(each) for each in step.assignees), "an assignee", MAX_NAME_CHARS)
    if len(assignees) > MAX_ASSIGNEES:
        raise InvalidWait(f"the step has {len(assignees)} assignees; it takes at most {MAX_ASSIGNEES}")
    return {
        "title": str(resolve(step.title))[:MAX_TITLE_CHARS],
        "assignees": list(assignees),
        "needs": step.needs,
        "options": list(step.options),
        "form": None if step.form is None else dict(step.form),
        "context": resolve(step.context),
        "fourEyes": step.four_eyes,
        "failsWhenRejected": step.fails_when_rejected,
    }


def _bounded(data: dict[str, Any]) -> dict[str, Any]:
    size = len(canonical(data))
    if size > INLINE_BYTES:
        raise InvalidWait(
            f"what the step waits with has {size:,} bytes; it takes at most {INLINE_BYTES:,}",
            hint="let `context` name what it shows by its id",
        )
    return data
