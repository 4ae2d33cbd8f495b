"""Evaluates the part of PromQL that our alerts use, over samples of two scrapes: before, and now.

A rate and an increase are the difference of the two. `or` with another vector, histograms and subqueries are
not known here: an expression that needs more raises.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import promql_parser as promql

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
Value = Vector | float

_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda one, other: one / other if other else math.nan if one == 0 else math.inf,
}
_COMPARISON: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
_AGGREGATION: dict[str, Callable[[Iterable[float]], float]] = {"sum": sum, "max": max, "min": min}


@dataclass(frozen=True, slots=True)
class Scrapes:
    """Samples by name and labels, of an earlier and of the last scrape."""

    before: Mapping[tuple[str, Labels], float]
    now: Mapping[tuple[str, Labels], float]

    def value(self, expression: str) -> Vector:
        """What an expression gives now."""
        found = self._value(promql.parse(expression))
        assert isinstance(found, dict), f"a number, not a vector: {expression}"
        return found

    def _value(self, part: Any) -> Value:
        match type(part).__name__:
            case "NumberLiteral":
                return float(part.val)
            case "ParenExpr":
                return self._value(part.expr)
            case "VectorSelector":
                return _selected(part, self.now)
            case "Call":
                return self._called(part)
            case "AggregateExpr":
                return _aggregated(part, self._value(part.expr))
            case "BinaryExpr":
                return _joined(part, self._value(part.lhs), self._value(part.rhs))
            case other:
                raise NotImplementedError(other)

    def _called(self, call: Any) -> Vector:
        if call.func.name not in ("rate", "increase"):
            raise NotImplementedError(call.func.name)
        selector = call.args[0].vector_selector
        before, now = _selected(selector, self.before), _selected(selector, self.now)
        return {labels: value - before[labels] for labels, value in now.items() if labels in before}


def _selected(selector: Any, samples: Mapping[tuple[str, Labels], float]) -> Vector:
    return {
        labels: value
        for (name, labels), value in samples.items()
        if name == selector.name and all(_matches(each, dict(labels)) for each in selector.matchers.matchers)
    }


def _matches(matcher: Any, labels: Mapping[str, str]) -> bool:
    value = labels.get(matcher.name, "")
    match str(matcher.op).rpartition(".")[2]:
        case "Equal":
            return value == matcher.value
        case "NotEqual":
            return value != matcher.value
        case "Re":
            return re.fullmatch(matcher.value, value) is not None
        case "NotRe":
            return re.fullmatch(matcher.value, value) is None
    raise NotImplementedError(str(matcher.op))


def _aggregated(part: Any, of: Value) -> Vector:
    assert isinstance(of, dict)
    groups: dict[Labels, list[float]] = {}
    for labels, value in of.items():
        groups.setdefault(_kept(part.modifier, labels), []).append(value)
    return {labels: _AGGREGATION[str(part.op)](values) for labels, values in groups.items()}


def _kept(modifier: Any, labels: Labels) -> Labels:
    if modifier is None:
        return frozenset()
    is_by = str(modifier.type).endswith("By")
    return frozenset(each for each in labels if (each[0] in modifier.labels) == is_by)


def _joined(part: Any, one: Value, other: Value) -> Value:
    name = str(part.op)
    if name in ("and", "unless"):
        assert isinstance(one, dict) and isinstance(other, dict)
        return {labels: value for labels, value in one.items() if (labels in other) == (name == "and")}
    if isinstance(one, float) and isinstance(other, float):
        return _ARITHMETIC[name](one, other)
    pairs = _pairs(one, other)
    if name in _COMPARISON:
        return {labels: left for labels, left, right in pairs if _COMPARISON[name](left, right)}
    return {labels: _ARITHMETIC[name](left, right) for labels, left, right in pairs}


def _pairs(one: Value, other: Value) -> Iterator[tuple[Labels, float, float]]:
    if isinstance(other, float):
        assert isinstance(one, dict)
        yield from ((labels, value, other) for labels, value in one.items())
    elif isinstance(one, float):
        yield from ((labels, one, value) for labels, value in other.items())
    else:
        yield from ((labels, value, other[labels]) for labels, value in one.items() if labels in other)


def selectors(expression: str) -> Iterator[Any]:
    """Every selector of series in an expression.

    Raises:
        ValueError: it is no PromQL.
    """
    yield from _selectors(promql.parse(expression))


def _selectors(part: Any) -> Iterator[Any]:
    if type(part).__name__ == "VectorSelector":
        yield part
    for inner in parts_of(part):
        yield from _selectors(inner)


def parts_of(part: Any) -> Iterator[Any]:
    """The expressions that an expression consists of."""
    for name in ("lhs", "rhs", "expr", "vector_selector"):
        if getattr(part, name, None) is not None:
            yield getattr(part, name)
    yield from getattr(part, "args", None) or ()


def taken_once(expression: str) -> set[str]:
    """The metrics whose series of several instances an expression takes once: by `max` without `instance`."""
    return set(_taken_once(promql.parse(expression), is_once=False))


def _taken_once(part: Any, *, is_once: bool) -> Iterator[str]:
    if type(part).__name__ == "AggregateExpr" and str(part.op) == "max":
        is_once = is_once or "instance" not in dict.fromkeys(_labels_kept(part.modifier))
    if type(part).__name__ == "VectorSelector" and is_once:
        yield part.name
    for inner in parts_of(part):
        yield from _taken_once(inner, is_once=is_once)


def _labels_kept(modifier: Any) -> Iterator[str]:
    if modifier is None:
        return
    if str(modifier.type).endswith("By"):
        yield from modifier.labels
    elif "instance" not in modifier.labels:
        yield "instance"
