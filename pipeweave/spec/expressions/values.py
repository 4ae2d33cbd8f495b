"""Say what kind a value is, whether two are equal and which is smaller, and what leaves an expression.

Values are those of JSON, and while an expression is evaluated also times and durations.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pipeweave.json_values import json_type
from pipeweave.spec.expressions.bounds import READ_PER_UNIT
from pipeweave.spec.expressions.faults import Unfit
from pipeweave.spec.expressions.frame import Frame

_NUMBERS: Final = frozenset({int, float})
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_TIMES: Final = frozenset({datetime, timedelta})
_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
Order = Callable[[Frame, Any, Any], bool]


def kind_name(value: Any) -> str:
    """Name the kind of a value, with its article: `a number`, `a time`."""
    if isinstance(value, datetime):
        return "a time"
    return "a duration" if isinstance(value, timedelta) else json_type(value)


def is_number(value: Any) -> bool:
    """Whether a value is a number; true and false are none."""
    return type(value) in _NUMBERS


def is_object(value: Any) -> bool:
    """Whether a value is an object."""
    # The second question takes Python ten times as long as the first.
    return type(value) is dict or isinstance(value, Mapping)


def is_list(value: Any) -> bool:
    """Whether a value is a list."""
    return isinstance(value, (list, tuple))


def truth(value: Any) -> bool:
    """True or false of a condition; null is false. Raises Unfit for anything else."""
    if value is True or value is False:
        return value
    if value is None:
        return False
    raise Unfit(
        f"{kind_name(value)} is neither true nor false", "compare it with something: there is no truthiness"
    )


def equal(frame: Frame, left: Any, right: Any) -> bool:
    """Whether two values are the same, part by part. 1 equals 1.0; '1' and true equal no number."""
    kind = type(left)
    if kind is not type(right) or kind not in _SCALARS:
        return _equal_parts(frame, left, right)
    if kind is str and len(left) > READ_PER_UNIT:
        frame.charge_read(len(left))
    return bool(left == right)


def _equal_parts(frame: Frame, left: Any, right: Any) -> bool:
    """Does not recurse: a value may be nested deeply."""
    pairs = [(left, right)]
    while pairs:
        one, other = pairs.pop()
        if is_list(one) and is_list(other):
            members = _pairs_of_lists(frame, one, other)
        elif is_object(one) and is_object(other):
            members = _pairs_of_objects(frame, one, other)
        else:
            members = None if _differ(one, other) else ()
        if members is None:
            return False
        for pair in members:
            if type(pair[0]) not in _SCALARS or type(pair[1]) not in _SCALARS:
                pairs.append(pair)
            elif not _equal_scalars(frame, *pair):
                return False
    return True


def _pairs_of_lists(frame: Frame, one: Any, other: Any) -> Iterable[tuple[Any, Any]] | None:
    if len(one) != len(other):
        return None
    frame.charge(2 * len(one))
    return zip(one, other, strict=True)


def _pairs_of_objects(frame: Frame, one: Any, other: Any) -> Iterable[tuple[Any, Any]] | None:
    if len(one) != len(other) or one.keys() != other.keys():
        return None
    frame.charge(2 * len(one))
    return ((value, other[key]) for key, value in one.items())


def _equal_scalars(frame: Frame, left: Any, right: Any) -> bool:
    if type(left) is str and len(left) > READ_PER_UNIT:
        frame.charge_read(len(left))
    return not _differ(left, right)


def _differ(left: Any, right: Any) -> bool:
    """Of two values that have no parts: true equals 1 in Python, not in JSON."""
    return bool(left != right) or (type(left) is bool) is not (type(right) is bool)


def ordered(sign: str) -> Order:
    """The comparison that `<`, `<=`, `>` or `>=` stands for; it is false where one value is null."""
    compare = _ORDERS[sign]

    def order(frame: Frame, left: Any, right: Any) -> bool:
        if left is None or right is None:
            return False
        check_comparable(sign, left, right)
        if type(left) is str and len(left) > READ_PER_UNIT:
            frame.charge_read(len(left))
        return compare(left, right)

    return order


def check_comparable(sign: str, left: Any, right: Any) -> None:
    """Raise Unfit unless one of two values can be smaller than the other."""
    one, other = type(left), type(right)
    if (one in _NUMBERS and other in _NUMBERS) or (one is other and (one is str or one in _TIMES)):
        return
    hint = "write time(…) around a text that is a time" if one in _TIMES or other in _TIMES else None
    raise Unfit(f"{sign} cannot compare {kind_name(left)} with {kind_name(right)}", hint)


def is_in(frame: Frame, member: Any, whole: Any) -> bool:
    """Whether a list has a value, an object a key, or a text a part; false where one of them is null."""
    if member is None or whole is None:
        return False
    if is_list(whole):
        frame.charge(len(whole))
        return any(equal(frame, member, each) for each in whole)
    if isinstance(member, str) and is_object(whole):
        return member in whole
    if isinstance(member, str) and isinstance(whole, str):
        charge_search(frame, whole, member)
        return member in whole
    raise Unfit(f"{kind_name(whole)} cannot hold {kind_name(member)}")


_SHORT_TEXT: Final = 2_500
_SHORT_PART: Final = 100
_STEPS_PER_UNIT: Final = 1_024
_SEARCHED_PER_UNIT: Final = 64


def charge_search(frame: Frame, text: str, part: str) -> None:
    """Count the search for a part in a text, by what it takes Python at worst: in a short text the product of
    their lengths, in a longer one less.
    """
    steps = len(text) * (len(part) if len(text) <= _SHORT_TEXT else min(len(part), _SHORT_PART))
    frame.charge(steps // _STEPS_PER_UNIT + len(text) // _SEARCHED_PER_UNIT + 1)


def as_json(frame: Frame, value: Any) -> Any:
    """What leaves an expression: a time as RFC 3339 in UTC, a duration as seconds, and lists of them."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
        return int(seconds) if seconds.is_integer() else seconds
    if is_list(value):
        frame.charge(len(value))
        return [as_json(frame, each) if type(each) in _TIMES or is_list(each) else each for each in value]
    return value


def as_text(value: Any) -> str:
    """A value as it stands in a text: a text as it is, any other as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def charge_json(frame: Frame, value: Any) -> None:
    """Count how long a value is as JSON, before it is written."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            # JSON writes some characters as six.
            frame.charge_made(len(each) if each.isprintable() else 6 * len(each))
        elif isinstance(each, Mapping):
            frame.charge(2 * len(each) + 1)
            left += each.values()
            left += each.keys()
        elif is_list(each):
            frame.charge(len(each) + 1)
            left += each
        else:
            frame.charge(1)
