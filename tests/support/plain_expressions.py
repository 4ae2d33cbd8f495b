"""Expressions as tuples, with the plainest evaluation that the rules allow: the oracle of the language.

It shares no code with `pipeweave.spec.expressions`: it walks the tuple, and compares and calculates by rules
of its own. `written` makes the text of an expression, with parentheses only where the strengths of the
operators need them.

    ("value", 1)                      ("path", "input", ("a", 0, "*"))       ("list", (a, b))
    ("two", "+", a, b)                ("not", a)                             ("minus", a)
    ("if", condition, a, b)           ("call", "len", (a,))
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

Plain: TypeAlias = tuple[Any, ...]


class Fails(Exception):
    """The expression has no value."""


class Missing(Fails):
    """A path leads nowhere."""


STRENGTHS = {
    **dict.fromkeys(("||",), 1),
    **dict.fromkeys(("&&",), 2),
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in"), 4),
    **dict.fromkeys(("+", "-"), 5),
    **dict.fromkeys(("*", "/", "%"), 6),
    **dict.fromkeys(("??",), 7),
}


def written(plain: Plain, least: int = 0) -> str:
    """The text of an expression that stands where operators of at least this strength may stand."""
    text, strength = _written(plain)
    return text if strength >= least else f"({text})"


def _written(plain: Plain) -> tuple[str, int]:
    match plain:
        case ("value", value):
            return json.dumps(value), 8 if isinstance(value, int | float) and value < 0 else 9
        case ("path", root, keys):
            return root + "".join(_segment(each) for each in keys), 9
        case ("list", entries):
            return f"[{', '.join(written(each) for each in entries)}]", 9
        case ("call", name, arguments):
            return f"{name}({', '.join(written(each) for each in arguments)})", 9
        case ("not", operand):
            return f"!{written(operand, 4)}", 3
        case ("minus", operand):
            return f"-{written(operand, 9)}", 8
        case ("if", condition, then, otherwise):
            return f"{written(condition, 1)} ? {written(then)} : {written(otherwise)}", 0
        case ("two", operator, left, right):
            strength = STRENGTHS[operator]
            # Comparisons are not chained, the others go on from left to right.
            first = strength + 1 if strength == 4 else strength
            return f"{written(left, first)} {operator} {written(right, strength + 1)}", strength
        case _:
            raise AssertionError(plain)


def _segment(key: str | int) -> str:
    if key == "*":
        return "[*]"
    return f"[{key}]" if isinstance(key, int) else f".{key}"


def value_of(plain: Plain, scope: Mapping[str, Any]) -> Any:
    """The value of an expression. Raises Fails if it has none."""
    match plain:
        case ("value", value):
            return value
        case ("path", root, keys):
            return _path(root, keys, scope)
        case ("list", entries):
            return [value_of(each, scope) for each in entries]
        case ("not", operand):
            return not _truth(value_of(operand, scope))
        case ("minus", operand):
            return _number_result("-", 0, value_of(operand, scope))
        case ("if", condition, then, otherwise):
            return value_of(then if _truth(value_of(condition, scope)) else otherwise, scope)
        case ("call", name, arguments):
            return _called(name, arguments, scope)
        case ("two", operator, left, right):
            return _two(operator, left, right, scope)
        case _:
            raise AssertionError(plain)


def _two(operator: str, left: Plain, right: Plain, scope: Mapping[str, Any]) -> Any:
    if operator == "&&":
        return _truth(value_of(left, scope)) and _truth(value_of(right, scope))
    if operator == "||":
        return _truth(value_of(left, scope)) or _truth(value_of(right, scope))
    if operator == "??":
        return _default(left, right, scope)
    one, other = value_of(left, scope), value_of(right, scope)
    if operator in ("==", "!="):
        return (_comparable(one) == _comparable(other)) is (operator == "==")
    if operator == "in":
        return _member(one, other)
    if operator in "<=>=":
        return _ordered(operator, one, other)
    return _number_result(operator, one, other)


def _default(left: Plain, right: Plain, scope: Mapping[str, Any]) -> Any:
    try:
        value = value_of(left, scope)
    except Missing:
        # Only a path itself may be missing; what is calculated from one fails. A chain of `??` is flat.
        if left[0] != "path":
            raise
        value = None
    return value_of(right, scope) if value is None else value


def _truth(value: Any) -> bool:
    if value is None:
        return False
    if value is True or value is False:
        return bool(value)
    raise Fails


def _path(root: str, keys: tuple[str | int, ...], scope: Mapping[str, Any]) -> Any:
    if root == "steps" and keys[0] not in scope["steps"]:
        return None
    return _followed(scope[root], keys)


def _followed(value: Any, keys: tuple[str | int, ...]) -> Any:
    if not keys:
        return value
    first, rest = keys[0], keys[1:]
    if first == "*":
        if not isinstance(value, list):
            raise Missing
        return [_followed(each, rest) for each in value]
    if not isinstance(value, dict if isinstance(first, str) else list):
        raise Missing
    try:
        return _followed(value[first], rest)
    except (KeyError, IndexError):
        raise Missing from None


def _comparable(value: Any) -> Any:
    """A form in which Python's `==` is that of the language."""
    if isinstance(value, bool) or value is None:
        return ("constant", str(value))
    if isinstance(value, int | float):
        return ("number", Fraction(value))
    if isinstance(value, list):
        return ("list", [_comparable(each) for each in value])
    if isinstance(value, dict):
        return ("object", {key: _comparable(each) for key, each in value.items()})
    return ("text", value)


def _member(one: Any, whole: Any) -> bool:
    if one is None or whole is None:
        return False
    if isinstance(whole, list):
        return _comparable(one) in [_comparable(each) for each in whole]
    if isinstance(one, str) and isinstance(whole, str | dict):
        return one in whole
    raise Fails


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _ordered(operator: str, one: Any, other: Any) -> bool:
    if one is None or other is None:
        return False
    are_texts = isinstance(one, str) and isinstance(other, str)
    if not are_texts and not (_is_number(one) and _is_number(other)):
        raise Fails
    return {"<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other}[operator]


def _number_result(operator: str, one: Any, other: Any) -> Any:
    if one is None or other is None:
        return None
    if operator == "+" and isinstance(one, str) and isinstance(other, str):
        return "".join((one, other))
    if not (_is_number(one) and _is_number(other)) or (operator in "/%" and other == 0):
        raise Fails
    try:
        result = _CALCULATIONS[operator](one, other)
    except OverflowError:
        raise Fails from None
    if isinstance(result, int) and not -(2**63) <= result <= 2**63 - 1:
        raise Fails
    if isinstance(result, float) and result - result != 0:
        raise Fails
    return 0.0 if result == 0 and isinstance(result, float) else result


def _divided(one: Any, other: Any) -> Any:
    exact = isinstance(one, int) and isinstance(other, int) and Fraction(one, other).denominator == 1
    return int(Fraction(one, other)) if exact else one / other


def _remainder(one: Any, other: Any) -> Any:
    if isinstance(one, int) and isinstance(other, int):
        return one - int(Fraction(one, other)) * other
    dividend, divisor = Fraction(float(one)), Fraction(float(other))
    return float(dividend - int(dividend / divisor) * divisor)


_CALCULATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda one, other: one + other,
    "-": lambda one, other: one - other,
    "*": lambda one, other: one * other,
    "/": _divided,
    "%": _remainder,
}


def _called(name: str, arguments: tuple[Plain, ...], scope: Mapping[str, Any]) -> Any:
    if name == "has":
        try:
            return value_of(arguments[0], scope) is not None
        except Missing:
            return False
    values = [value_of(each, scope) for each in arguments]
    if any(each is None for each in values):
        return None
    kinds, call = _FUNCTIONS[name]
    if not all(isinstance(value, kind) for value, kind in zip(values, kinds, strict=True)):
        raise Fails
    return call(*values)


def _total(listed: list[Any]) -> Any:
    numbers = [each for each in listed if each is not None]
    if not all(_is_number(each) for each in numbers):
        raise Fails
    return _number_result("+", sum(numbers), 0)


def _every(listed: list[Any]) -> bool:
    return all(_truth(each) for each in listed)


_FUNCTIONS: Mapping[str, tuple[tuple[Any, ...], Callable[..., Any]]] = {
    "len": ((str | list | dict,), len),
    "lower": ((str,), lambda text: "".join(letter.lower() for letter in text)),
    "starts": ((str, str), lambda text, prefix: text[: len(prefix)] == prefix),
    "keys": ((dict,), lambda members: sorted(members)),
    "first": ((list,), lambda listed: listed[0] if listed else None),
    "sum": ((list,), _total),
    "all": ((list,), _every),
}
