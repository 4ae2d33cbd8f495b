"""The functions of expressions that look at lists, objects and numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

from pipeweave.spec.expressions.arguments import list_of, number_of, object_of
from pipeweave.spec.expressions.arithmetic import bounded
from pipeweave.spec.expressions.faults import Unfit
from pipeweave.spec.expressions.frame import Frame
from pipeweave.spec.expressions.values import check_comparable, is_number, kind_name, truth

_MOST_DIGITS: Final = 15


def length(frame: Frame, value: Any) -> int:
    """The characters of a text, the elements of a list, the keys of an object."""
    if isinstance(value, (str, list, tuple, Mapping)):
        return len(value)
    raise Unfit(f"len needs a text, a list or an object, not {kind_name(value)}")


def keys(frame: Frame, value: Any) -> list[str]:
    """The keys of an object, sorted: stored objects do not keep an order."""
    members = object_of("keys", value)
    frame.charge(2 * len(members))
    return sorted(members)


def first(frame: Frame, value: Any) -> Any:
    """The first element of a list; null of an empty one."""
    listed = list_of("first", value)
    return listed[0] if listed else None


def last(frame: Frame, value: Any) -> Any:
    """The last element of a list; null of an empty one."""
    listed = list_of("last", value)
    return listed[-1] if listed else None


def total(frame: Frame, value: Any) -> int | float:
    """The sum of the numbers in a list; null entries are left out."""
    listed = list_of("sum", value)
    frame.charge(len(listed))
    numbers = [each for each in listed if each is not None]
    for each in numbers:
        if not is_number(each):
            number_of("sum", each)
    return bounded(sum(numbers))


def smallest(frame: Frame, *values: Any) -> Any:
    """The smallest of several values, or of a list; null ones are left out."""
    return _extreme(frame, "min", values)


def largest(frame: Frame, *values: Any) -> Any:
    """The largest of several values, or of a list; null ones are left out."""
    return _extreme(frame, "max", values)


def _extreme(frame: Frame, name: str, values: Sequence[Any]) -> Any:
    listed = values if len(values) > 1 or values[0] is None else list_of(name, values[0])
    frame.charge(len(listed))
    result = None
    for each in listed:
        if each is None:
            continue
        if result is None or type(each) is not type(result):
            check_comparable(name, each, each if result is None else result)
        if result is None or (each < result if name == "min" else each > result):
            result = each
    return result


def any_true(frame: Frame, value: Any) -> bool:
    """Whether one of a list is true; null is false."""
    listed = list_of("any", value)
    frame.charge(len(listed))
    return any(truth(each) for each in listed)


def all_true(frame: Frame, value: Any) -> bool:
    """Whether all of a list are true; null is false."""
    listed = list_of("all", value)
    frame.charge(len(listed))
    return all(truth(each) for each in listed)


def rounded(frame: Frame, value: Any, digits: Any = 0) -> int | float:
    """The nearest number with so many digits behind the point (default 0), halves away from zero."""
    plain = number_of("round", value)
    if type(digits) is not int or not 0 <= digits <= _MOST_DIGITS:
        raise Unfit(f"round takes 0 to {_MOST_DIGITS} digits")
    if isinstance(plain, int) or abs(plain) >= 2**53:
        return bounded(int(plain)) if digits == 0 else plain
    nearest = Decimal(repr(plain)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return int(nearest) if digits == 0 else float(nearest)


def floor(frame: Frame, value: Any) -> int | float:
    """The largest whole number that is not larger."""
    return bounded(math.floor(number_of("floor", value)))


def ceiling(frame: Frame, value: Any) -> int | float:
    """The smallest whole number that is not smaller."""
    return bounded(math.ceil(number_of("ceil", value)))


def size(frame: Frame, value: Any) -> int | float:
    """The number without its sign."""
    return bounded(abs(number_of("abs", value)))
