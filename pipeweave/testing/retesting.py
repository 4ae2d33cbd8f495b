"""Calls a task with the inputs of a recorded task run, and tells whether it would do the same today."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pipeweave.authoring import CallResult, Task
from pipeweave.spec.references import find_references, resolve
from pipeweave.testing import run_task
from pipeweave.testing.refused_outside import WentOutside, refused_outside

Verdict = Literal["same", "different", "failed", "skipped"]

# What a record has the values of. The others (variables, the trigger, secrets, errors) are not in it.
_KNOWN_ROOTS = frozenset({"input", "steps", "item", "mapIndex"})


@dataclass(frozen=True, slots=True)
class Retested:
    """What became of one recorded task run.

    Args:
        why: for `failed`, what the function raised; for `skipped`, why it was not called; else empty.
        output: of the call; None if there was none.
        run_next: the successors that it chose, by task; None for all.
    """

    verdict: Verdict
    why: str = ""
    output: Any = None
    run_next: tuple[str, ...] | None = None


def retest(task: Task[..., Any] | None, recorded: Mapping[str, Any], upstream: Mapping[str, Any]) -> Retested:
    """Call a task as the recorded attempt was called, with nothing outside of this process.

    Args:
        task: as it is today; None if it is not there any more.
        recorded: the task run, as the API shows it with its large values.
        upstream: the outputs of the steps before it, by step.
    """
    if why := _reason_to_skip(task, recorded):
        return Retested("skipped", why)
    assert task is not None, "skipped before"
    try:
        with refused_outside():
            result = _called(task, recorded, upstream)
    except WentOutside as error:
        return Retested("skipped", f"it leaves the process: {error}")
    except Exception as error:
        return _failed(error)
    if result.suspend is not None:
        return Retested("skipped", "it suspends itself")
    chosen = recorded.get("selectedNext")
    is_same = result.output == recorded.get("output") and result.run_next == (
        None if chosen is None else tuple(chosen)
    )
    return Retested("same" if is_same else "different", "", result.output, result.run_next)


def _reason_to_skip(task: Task[..., Any] | None, recorded: Mapping[str, Any]) -> str:
    if recorded["status"] != "completed":
        return f"it is {recorded['status']}: there is no result to compare"
    if recorded.get("cachedFrom"):
        return "its result was taken over from another task run"
    if task is None:
        return "the code has no such task"
    if recorded.get("assets"):
        return "it has stored files"
    if recorded.get("outputRef") is not None:
        return "its result is not in the record"
    unknown = {each.root for _, each in find_references(recorded.get("params"), "params")[0]} - _KNOWN_ROOTS
    return f"its params name `{min(unknown)}`, which is not in the record" if unknown else ""


def _called(task: Task[..., Any], recorded: Mapping[str, Any], upstream: Mapping[str, Any]) -> CallResult:
    item, index, params = recorded.get("item"), recorded.get("mapIndex"), recorded.get("params")
    if params is not None:
        params = resolve(params, input=recorded["input"], steps=upstream, item=item, map_index=index)
    return run_task(
        task,
        recorded["input"],
        params=params,
        upstream=upstream,
        item=item,
        map_index=index,
        attempt=recorded["attempt"],
        tenant=recorded.get("tenant", "test"),
    )


def _failed(error: Exception) -> Retested:
    # A library may wrap what was refused.
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, WentOutside):
            return Retested("skipped", f"it leaves the process: {cause}")
        cause = cause.__cause__ or cause.__context__
    return Retested("failed", f"{type(error).__name__}: {error}"[:500])
