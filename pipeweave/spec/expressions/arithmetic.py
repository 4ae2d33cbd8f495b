"""Add, subtract, multiply and divide numbers of 64 bits, times and durations; null makes null."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from pipeweave.spec.expressions.faults import Unfit
from pipeweave.spec.expressions.frame import Frame
from pipeweave.spec.expressions.values import is_number, kind_name

_INT64: Final = 1 << 63
Operation = Callable[[Frame, Any, Any], Any]


def bounded(number: int | float) -> int | float:
    """The number, if 64 bits hold it; there is one zero. Raises Unfit."""
    fits = -_INT64 <= number < _INT64 if isinstance(number, int) else math.isfinite(number)
    if not fits:
        raise Unfit("the number is beyond 64 bits")
    return number or abs(number)


def add(frame: Frame, left: Any, right: Any) -> Any:
    """`+`: numbers, texts, a duration and a time or another duration."""
    if is_number(left) and is_number(right):
        return bounded(left + right)
    if left is None or right is None:
        return None
    if type(left) is str and type(right) is str:
        frame.charge_made(len(left) + len(right))
        return left + right
    if isinstance(left, (datetime, timedelta)) and isinstance(right, timedelta):
        return left + right
    if isinstance(left, timedelta) and isinstance(right, datetime):
        return left + right
    hint = "write text(…) around the other one" if str in (type(left), type(right)) else None
    raise Unfit(f"+ cannot add {kind_name(left)} and {kind_name(right)}", hint)


def subtract(frame: Frame, left: Any, right: Any) -> Any:
    """`-`: numbers, times, durations, a duration from a time."""
    if is_number(left) and is_number(right):
        return bounded(left - right)
    if left is None or right is None:
        return None
    if isinstance(left, datetime) and isinstance(right, (datetime, timedelta)):
        return left - right
    if isinstance(left, timedelta) and isinstance(right, timedelta):
        return left - right
    raise Unfit(f"- cannot subtract {kind_name(right)} from {kind_name(left)}")


def multiply(frame: Frame, left: Any, right: Any) -> Any:
    """`*`: numbers, a duration and a number."""
    if is_number(left) and is_number(right):
        return bounded(left * right)
    if left is None or right is None:
        return None
    if (isinstance(left, timedelta) and is_number(right)) or (
        isinstance(right, timedelta) and is_number(left)
    ):
        return left * right
    raise Unfit(f"* cannot multiply {kind_name(left)} and {kind_name(right)}")


def divide(frame: Frame, left: Any, right: Any) -> Any:
    """`/`: numbers; whole numbers that divide evenly give a whole number."""
    if left is None or right is None:
        return None
    _check_division("/", left, right)
    if isinstance(left, int) and isinstance(right, int) and left % right == 0:
        return bounded(left // right)
    return bounded(left / right)


def remainder(frame: Frame, left: Any, right: Any) -> Any:
    """`%`: numbers; the remainder has the sign of the dividend."""
    if left is None or right is None:
        return None
    _check_division("%", left, right)
    if isinstance(left, int) and isinstance(right, int):
        size = abs(left) % abs(right)
        return -size if left < 0 else size
    return bounded(math.fmod(left, right))


def _check_division(sign: str, left: Any, right: Any) -> None:
    if not (is_number(left) and is_number(right)):
        raise Unfit(f"{sign} cannot divide {kind_name(left)} by {kind_name(right)}")
    if right == 0:
        raise Unfit("division by zero")


def negate(value: Any) -> Any:
    """`-x`: a number or a duration."""
    if value is None:
        return None
    if is_number(value):
        return bounded(-value)
    if isinstance(value, timedelta):
        return -value
    raise Unfit(f"- needs a number, not {kind_name(value)}")


OPERATIONS: Final[Mapping[str, Operation]] = {
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "%": remainder,
}
