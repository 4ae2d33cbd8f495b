"""Say what a step comes to that the engine decides and that does not wait: choice, transform, gather. Pure.

The engine and `pipeweave.testing` decide by it, each with the values that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pipeweave.size_limits import INLINE_BYTES
from pipeweave.spec.engine_steps import Choice, Gather, Transform
from pipeweave.spec.expressions import parse_condition
from pipeweave.spec.references import resolve
from pipeweave.spec.rules import FAILED, PARTIAL_MERGE, Predecessor

PARALLEL_FAILED: Final = "PARALLEL_FAILED"
RESULT_TOO_LARGE: Final = "RESULT_TOO_LARGE"
# A gather names so many failures of its members.
MOST_FAILURES: Final = 100

# The values that expressions may name, by their roots.
Scope = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Made:
    """What such a step completes with.

    Args:
        output: a JSON value.
        selected_next: the successors that it chose; None for all.
    """

    output: Any
    selected_next: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """Why such a step fails; it is not retried.

    Args:
        code: the error code.
        message: for people.
        details: a JSON value that says more.
    """

    code: str
    message: str
    details: Any = None


def result_of(
    decides: Choice | Transform | Gather,
    scope: Scope,
    *,
    predecessors: Sequence[str],
    successors: Sequence[str],
    is_tolerated: Callable[[str], bool],
    now: datetime | None,
) -> Made | Refused:
    """What a step comes to.

    Args:
        decides: what the engine does.
        scope: values by root; a gather needs `steps`, `status` and `errors` of its members.
        predecessors: the ids of the steps before it.
        successors: the ids of the steps behind it.
        is_tolerated: whether the failure of a step, by its id, is passed over.
        now: what `now()` gives.

    Raises:
        ExpressionFailed, InvalidReference: an expression cannot be evaluated.
    """
    match decides:
        case Choice():
            return _chosen(decides, scope, successors, now)
        case Transform():
            return _transformed(decides, scope, now)
        case Gather():
            return _gathered(decides, scope, predecessors, is_tolerated)


def _chosen(choice: Choice, scope: Scope, successors: Sequence[str], now: datetime | None) -> Made:
    always = [each for each in successors if each not in choice.branches]
    for place, case in enumerate(choice.cases):
        if case.condition is None or parse_condition(case.condition).is_true(scope, now=now):
            chosen = tuple(dict.fromkeys([*case.next, *always]))
            return Made(place if case.name is None else case.name, chosen)
    return Made(None, tuple(always))


def _transformed(transform: Transform, scope: Scope, now: datetime | None) -> Made | Refused:
    for each in transform.fail_if:
        if parse_condition(each.condition).is_true(scope, now=now):
            return Refused(each.code, str(fill(each.message, scope, now)))
    return Made(fill(transform.output, scope, now))


def fill(value: Any, scope: Scope, now: datetime | None) -> Any:
    """Replace every `${…}` in a JSON value; see `references.resolve`."""
    return resolve(value, input=None, steps={}, scope=scope, now=now)


def _gathered(
    gather: Gather, scope: Scope, predecessors: Sequence[str], is_tolerated: Callable[[str], bool]
) -> Made | Refused:
    status = scope["status"]
    failed = [
        each
        for each in gather.members
        if status.get(each) == "cancelled" or (status.get(each) in FAILED and not is_tolerated(each))
    ]
    if failed:
        return _parallel_failed([_failure(scope["errors"], each) for each in failed], len(gather.members))
    return Made({each: scope["steps"].get(each) for each in predecessors})


def _failure(errors: Mapping[str, Any], step_id: str) -> dict[str, Any]:
    error = errors.get(step_id) or {"code": None, "message": "it was cancelled"}
    return {"code": error["code"], "message": error["message"], "step": step_id}


def _parallel_failed(failures: Sequence[Mapping[str, Any]], members: int) -> Refused:
    first = failures[0]
    why = ": ".join(each for each in (first["code"], first["message"]) if each)
    message = f"{len(failures):,} of {members:,} steps failed, the first is {first['step']} ({why})"
    return Refused(PARALLEL_FAILED, message, {"failures": list(failures[:MOST_FAILURES])})


def is_after_failure(mode: str, predecessors: Collection[Predecessor]) -> bool:
    """Whether a gather of which no member failed is skipped because of a failure before the block.

    Args:
        mode: the failure mode of the run; `partial-merge` goes on with what completed.
        predecessors: those of the gather.
    """
    if not any(each.follows_failure for each in predecessors):
        return False
    return mode != PARTIAL_MERGE or all(each.status != "completed" for each in predecessors)


def too_large(size: int, decides: Choice | Transform | Gather) -> Refused:
    """Why a step fails whose output has `size` bytes of JSON, more than INLINE_BYTES."""
    is_gather = isinstance(decides, Gather)
    hint = "refer to the outputs of its members themselves" if is_gather else "let a task make it"
    return Refused(
        RESULT_TOO_LARGE,
        f"the output has {size:,} bytes; the engine makes at most {INLINE_BYTES:,}; {hint}",
    )
