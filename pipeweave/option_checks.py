"""Check single options of tasks and steps; each function yields the mistakes of one option."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

from pipeweave.errors import FieldError, InvalidId
from pipeweave.ids import ENGINE_TASK_PREFIX, check_name
from pipeweave.json_values import json_faults

Backoff = Literal["fixed", "linear", "exponential"]
BACKOFFS: tuple[Backoff, ...] = get_args(Backoff)
"""How the delay grows from attempt to attempt."""

OnExhausted = Literal["fail", "pause"]
ON_EXHAUSTED: tuple[OnExhausted, ...] = get_args(OnExhausted)
"""What follows the last attempt of a step: its failure, or a pause of its run until people resume it."""
FAIL, PAUSE = ON_EXHAUSTED

MAX_RETRIES = 10_000
"""The most retries that a task or a step may ask for."""

MAX_MULTIPLIER = 1_000
"""The largest factor between the delays of two attempts."""

MAX_CODES = 100
"""The most error codes that one task may name."""

MAX_CODE = 200
"""The most characters of an error code."""

CODES_EXPECTED = f"a list of 1 to {MAX_CODES} error codes, each a text of 1 to {MAX_CODE} characters"

QUEUE_PATTERN = "^[A-Za-z0-9._-]{1,100}$"
"""The name of a queue."""

MAX_VERSION = 100
"""The most characters of the version of a task's code."""

QUEUE_EXPECTED = "1 to 100 of the characters A-Z a-z 0-9 . _ -"


def is_queue(value: Any) -> bool:
    """True if a value is a valid name of a queue."""
    return isinstance(value, str) and re.fullmatch(QUEUE_PATTERN, value) is not None


def queue_mistakes(value: Any) -> Iterator[FieldError]:
    """Yield the mistakes of the name of a task's queue; None is valid."""
    if value is not None and not is_queue(value):
        yield FieldError("queue", f"is {value!r}: use {QUEUE_EXPECTED}"[:500], "invalid", QUEUE_EXPECTED)


def version_mistakes(value: Any) -> Iterator[FieldError]:
    """Yield the mistakes of the version of a task's code; None is valid."""
    if value is not None and not (isinstance(value, str) and 1 <= len(value) <= MAX_VERSION):
        expected = f"a text of 1 to {MAX_VERSION} characters, e.g. '2'"
        yield FieldError("version", f"is {value!r}: use {expected}"[:500], "invalid", expected)


def name_mistakes(text: Any, option: str) -> Iterator[FieldError]:
    """Yield the mistakes of the id of a task."""
    try:
        check_name(text, option)
    except InvalidId as error:
        yield FieldError(option, f"{str(text)[:80]!r} is not a valid id: {error.hint}", "invalid_id")
        return
    if text.startswith(ENGINE_TASK_PREFIX):
        problem = f"{text[:80]!r} is not a valid id: {ENGINE_TASK_PREFIX} is reserved for the engine"
        yield FieldError(option, problem, "invalid_id")


def number_mistakes(
    value: Any, option: str, kind: type, lowest: float, highest: float
) -> Iterator[FieldError]:
    """Yield the mistakes of a number: a wrong type, or a value out of range.

    Args:
        value: the option's value.
        option: the option's name.
        kind: `int`, or `float`, which also accepts an int.
        lowest: the smallest valid value.
        highest: the largest valid value.
    """
    wanted = "a whole number" if kind is int else "a number"
    expected = f"{wanted} from {lowest} to {highest}"
    allowed = int if kind is int else (int, float)
    is_number = isinstance(value, allowed) and not isinstance(value, bool)
    if not is_number or (isinstance(value, float) and not math.isfinite(value)):
        yield FieldError(option, f"must be {wanted}, not {value!r}"[:500], "invalid_type", expected)
    elif not lowest <= value <= highest:
        wrong = f"is {value}: it must lie between {lowest} and {highest}"
        yield FieldError(option, wrong, "out_of_range", expected)


def choice_mistakes(value: Any, option: str, choices: Sequence[str]) -> Iterator[FieldError]:
    """Yield a mistake if the value is not one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        allowed = ", ".join(choices)
        yield FieldError(option, f"is {value!r}: use one of {allowed}"[:500], "invalid_value", allowed)


def are_codes(value: Any) -> bool:
    """True if a value is a valid list of error codes (CODES_EXPECTED)."""
    return (
        isinstance(value, (list, tuple))
        and 1 <= len(value) <= MAX_CODES
        and all(isinstance(each, str) and 1 <= len(each) <= MAX_CODE for each in value)
        and not json_faults(list(value))
    )


def code_mistakes(value: Any, option: str) -> Iterator[FieldError]:
    """Yield the mistakes of a list of error codes; None is valid."""
    if value is None or are_codes(value):
        return
    classes = [each for each in value if isinstance(each, type)] if isinstance(value, (list, tuple)) else []
    if classes:
        name = classes[0].__name__
        wrong = f"holds the class {name}: an exception's code is the name of its class, {name!r}"
    else:
        wrong = f"must be {CODES_EXPECTED}, not {value!r}"[:500]
    yield FieldError(option, wrong, "invalid", CODES_EXPECTED)
