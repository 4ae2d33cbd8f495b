"""Read what a document says of when a step runs and what follows its failures: join, retry and flags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeweave.durations import MAX_MS
from pipeweave.field_errors import FieldErrors
from pipeweave.labels import Labels, label_mistakes
from pipeweave.option_checks import (
    BACKOFFS,
    MAX_MULTIPLIER,
    MAX_RETRIES,
    ON_EXHAUSTED,
    PAUSE,
    choice_mistakes,
    code_mistakes,
    number_mistakes,
    queue_mistakes,
)
from pipeweave.sandbox import MEMBERS, mistakes_in
from pipeweave.spec.joins import ALL, ALL_DONE, ANY, JoinRule
from pipeweave.spec.pipeline_spec import StepRetry
from pipeweave.spec.references import json_type

_JOINS = {"all": ALL, "all-done": ALL_DONE, "any": ANY}
_JOIN_EXPECTED = "all, all-done, any or {atLeast: n}"
_RETRY_KEYS = ("attempts", "backoff", "delayMs", "multiplier", "maxDelayMs", "jitter", "retryOn")
# The same keys as another notation writes them.
_RETRY_NAMES = {
    "delay_ms": "delayMs",
    "max_delay_ms": "maxDelayMs",
    "backoff_multiplier": "multiplier",
    "retry_on": "retryOn",
}


def renamed(
    mistakes: FieldErrors, members: Mapping[str, Any], names: Mapping[str, str], path: str
) -> Mapping[str, Any]:
    """The members of an object with the one name that each of them has here.

    Args:
        mistakes: where a member goes that is given under both names.
        members: the object.
        names: the name here, by another one that is accepted, too.
        path: of the object in the document.
    """
    if not any(each in members for each in names):
        return members
    result = {key: value for key, value in members.items() if key not in names}
    for key in names.keys() & members.keys():
        if names[key] in members:
            problem = f"is the same as `{names[key]}`: leave one of the two out"
            mistakes.wrong(f"{path}.{key}" if path else key, problem, "conflict")
        else:
            result[names[key]] = members[key]
    return result


def read_flag(mistakes: FieldErrors, members: Mapping[str, Any], key: str, path: str) -> bool:
    """Read true or false; false if there is none."""
    flag = members.get(key)
    if flag is not None and not isinstance(flag, bool):
        mistakes.wrong(
            f"{path}.{key}", f"must be true or false, not {json_type(flag)}", "invalid_type", "boolean"
        )
        return False
    return bool(flag)


def read_on_exhausted(mistakes: FieldErrors, members: Mapping[str, Any], path: str = "") -> str | None:
    """Read what follows the last attempt; None where nothing is said.

    Args:
        path: of the step; empty for the pipeline.
    """
    written = members.get("onExhausted")
    if written is None:
        return None
    field = f"{path}.onExhausted" if path else "onExhausted"
    for each in choice_mistakes(written, field, ON_EXHAUSTED):
        mistakes.wrong(field, each.message, each.code, each.expected)
        return None
    if written == PAUSE and members.get("continueOnError"):
        problem = "cannot be given together with `continueOnError`: the run either pauses or goes on"
        mistakes.wrong(field, problem, "conflict")
    return str(written)


def read_sandbox(mistakes: FieldErrors, members: Mapping[str, Any], path: str) -> Mapping[str, Any] | None:
    """Read what the call of a step may use, with the members that are written; None where nothing is said.

    Args:
        path: of the step.
    """
    written = members.get("sandbox")
    if written is None:
        return None
    field = f"{path}.sandbox"
    if not isinstance(written, Mapping):
        mistakes.wrong(field, f"must be an object, not {json_type(written)}", "invalid_type", "object")
        return None
    if "adapter" in members:
        mistakes.wrong(field, "is not allowed next to `adapter`: its actions run in the worker", "conflict")
    mistakes.unknown_keys(written, MEMBERS, field)
    wrong = list(mistakes_in(written, f"{field}."))
    for each in wrong:
        mistakes.wrong(each.field, each.message, each.code, each.expected)
    return None if wrong else {key: written[key] for key in MEMBERS if key in written}


def read_queue(mistakes: FieldErrors, written: Any, path: str) -> str | None:
    """Read the name of a queue; None if there is none, or a wrong one."""
    wrong = list(queue_mistakes(written))
    for each in wrong:
        mistakes.wrong(f"{path}.queue", each.message, each.code, each.expected)
    return None if wrong or written is None else str(written)


def read_requires(mistakes: FieldErrors, written: Any, path: str) -> Labels | None:
    """Read the labels that a step requires, sorted by name; None if there are none, or wrong ones. Values may
    be templates.
    """
    wrong = list(label_mistakes(written, f"{path}.requires", takes_templates=True))
    for each in wrong:
        mistakes.wrong(each.field, each.message, each.code, each.expected)
    return None if wrong or written is None else dict(sorted(written.items()))


def read_join(mistakes: FieldErrors, written: Any, path: str) -> JoinRule:
    """Read a join rule; `all` if there is none."""
    if written is None:
        return ALL
    if isinstance(written, str) and written in _JOINS:
        return _JOINS[written]
    if isinstance(written, Mapping) and set(written) == {"atLeast"}:
        number = written["atLeast"]
        if isinstance(number, int) and not isinstance(number, bool) and number >= 1:
            return JoinRule(at_least=number)
        mistakes.wrong(
            f"{path}.atLeast", f"must be a whole number from 1, not {number!r}"[:500], "invalid_value"
        )
        return ALL
    near = mistakes.nearest(written, _JOINS) if isinstance(written, str) else None
    hint = f"; did you mean {near!r}?" if near else ""
    problem = f"is {written!r}: use {_JOIN_EXPECTED}"[:400] + hint
    mistakes.wrong(path, problem, "invalid_value", near or _JOIN_EXPECTED)
    return ALL


def read_retry(mistakes: FieldErrors, written: Any, path: str) -> StepRetry | None:
    """Read `retry`; an empty object gives the defaults. None if there is none, or a wrong one."""
    if written is None:
        return None
    if not isinstance(written, Mapping):
        problem = f"must be an object such as {{attempts: 3}}, not {json_type(written)}"
        mistakes.wrong(path, problem, "invalid_type", "object")
        return None
    members = renamed(mistakes, written, _RETRY_NAMES, path)
    mistakes.unknown_keys(members, _RETRY_KEYS, path)
    default = StepRetry()
    policy = {key: members[key] for key in members if members[key] is not None}
    retry = StepRetry(
        attempts=policy.get("attempts", default.attempts),
        delay_ms=policy.get("delayMs", default.delay_ms),
        backoff=policy.get("backoff", default.backoff),
        multiplier=policy.get("multiplier", default.multiplier),
        max_delay_ms=policy.get("maxDelayMs", default.max_delay_ms),
        jitter=policy.get("jitter", default.jitter),
        retry_on=policy.get("retryOn"),
    )
    wrong = [
        *number_mistakes(retry.attempts, "attempts", int, 1, MAX_RETRIES + 1),
        *number_mistakes(retry.delay_ms, "delayMs", int, 1, MAX_MS),
        *choice_mistakes(retry.backoff, "backoff", BACKOFFS),
        *number_mistakes(retry.multiplier, "multiplier", float, 1, MAX_MULTIPLIER),
        *number_mistakes(retry.max_delay_ms, "maxDelayMs", int, 1, MAX_MS),
        *number_mistakes(retry.jitter, "jitter", float, 0, 1),
        *code_mistakes(retry.retry_on, "retryOn"),
    ]
    for each in wrong:
        mistakes.wrong(f"{path}.{each.field}", each.message, each.code, each.expected)
    return None if wrong else _with_codes(retry)


def _with_codes(retry: StepRetry) -> StepRetry:
    """The same policy with its codes as a tuple, each once."""
    if retry.retry_on is None:
        return retry
    return StepRetry(
        retry.attempts,
        retry.delay_ms,
        retry.backoff,
        retry.multiplier,
        retry.max_delay_ms,
        retry.jitter,
        tuple(dict.fromkeys(retry.retry_on)),
    )
