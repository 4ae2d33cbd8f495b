"""An expression: parsed once per process and text, evaluated as often as it is needed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from pipeweave.errors import ExpressionFailed
from pipeweave.json_values import json_faults
from pipeweave.size_limits import MAX_JSON_DEPTH
from pipeweave.spec.expressions.bounds import MAX_CHARS, MAX_WORK
from pipeweave.spec.expressions.evaluating import compiled
from pipeweave.spec.expressions.faults import BadExpression, Unfit
from pipeweave.spec.expressions.frame import Frame
from pipeweave.spec.expressions.functions import MAKE_TIMES, NOW
from pipeweave.spec.expressions.parsing import parse_inside, parse_whole
from pipeweave.spec.expressions.paths import Run
from pipeweave.spec.expressions.tree import FunctionCall, Path, Tree, parts_of
from pipeweave.spec.expressions.values import as_json, kind_name

_CACHED = 4096
_OPENING = re.compile(r"\$\$\{|\$\{")


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression; two are equal if their texts are.

    Args:
        text: as it was written.
        is_condition: it was parsed as a condition.
        references: every path in it, in the order in which they are written.
        uses_now: it calls `now()`.
        is_constant: it has neither a path nor `now()`.
        tree: its parts.
    """

    text: str
    is_condition: bool
    references: tuple[Path, ...] = field(compare=False)
    uses_now: bool = field(compare=False)
    is_constant: bool = field(compare=False)
    tree: Tree = field(compare=False, repr=False)
    _run: Run = field(compare=False, repr=False)
    _makes_times: bool = field(compare=False, repr=False)

    def evaluate(
        self, scope: Mapping[str, Any], *, now: datetime | None = None, max_chars: int | None = None
    ) -> Any:
        """Give the value, as JSON: a time as RFC 3339 in UTC, a duration as seconds.

        Args:
            scope: values by root. Of `steps` only the completed ones are there.
            now: what `now()` gives, aware; without it `now()` fails.
            max_chars: how long the value may be, about, in characters of JSON; None for no limit.

        Raises:
            InvalidReference: a path does not exist.
            ExpressionFailed: a value does not fit its operation, or a bound is exceeded.
        """
        return self._evaluate(Frame(scope, now), max_chars)

    def measure(
        self, scope: Mapping[str, Any], *, now: datetime | None = None, max_chars: int | None = None
    ) -> tuple[Any, int]:
        """Give the value and the units of work that it took; see `evaluate`."""
        frame = Frame(scope, now)
        return self._evaluate(frame, max_chars), MAX_WORK - frame.left

    def _evaluate(self, frame: Frame, max_chars: int | None) -> Any:
        try:
            value = self._run(frame)
            if self._makes_times:
                value = as_json(frame, value)
        except Unfit as failure:
            raise self._failed(str(failure), failure.hint) from None
        except OverflowError:
            raise self._failed("a number or a time is beyond its bounds") from None
        if max_chars is not None:
            self._check_size(value, max_chars)
        return value

    def is_true(self, scope: Mapping[str, Any], *, now: datetime | None = None) -> bool:
        """Evaluate a condition; null is false.

        Args:
            scope, now: see `evaluate`.

        Raises:
            InvalidReference: a path does not exist.
            ExpressionFailed: as for `evaluate`, and when the value is neither true, false nor null.
        """
        value = self.evaluate(scope, now=now)
        if value is None or isinstance(value, bool):
            return value is True
        raise self._failed(
            f"a condition gives true, false or null, not {kind_name(value)}",
            "compare it with something: there is no truthiness",
        )

    def _check_size(self, value: Any, max_chars: int) -> None:
        for fault in json_faults(value, budget=max_chars, max_depth=MAX_JSON_DEPTH):
            if fault.code in ("too_large", "too_deep"):
                raise self._failed(f"the value {fault.message}", "let a task make what is so large")

    def _failed(self, why: str, hint: str | None = None) -> ExpressionFailed:
        text = self.text if len(self.text) <= 80 else f"{self.text[:79]}…"
        return ExpressionFailed(f"{text!r} cannot be evaluated: {why}", hint=hint)


@lru_cache(maxsize=_CACHED)
def parse_expression(text: str) -> Expression:
    """Parse what stands in `${…}`.

    Raises:
        BadExpression: it cannot be parsed, names an unknown root or function, or exceeds a bound.
    """
    return _whole(text, is_condition=False)


@lru_cache(maxsize=_CACHED)
def parse_condition(text: str) -> Expression:
    """Parse a condition: an expression in which `${ e }` is `( e )`.

    Raises:
        BadExpression: see `parse_expression`.
    """
    return _whole(text, is_condition=True)


def _whole(text: str, *, is_condition: bool) -> Expression:
    if len(text) > MAX_CHARS:
        raise BadExpression(f"is longer than {MAX_CHARS} characters", MAX_CHARS + 1, "too_long")
    return _expression(text, parse_whole(text, takes_references=is_condition), is_condition=is_condition)


@lru_cache(maxsize=_CACHED)
def parse_template(text: str) -> tuple[str | Expression, ...]:
    """Split a text into its literal parts and the expressions in `${…}`, in order; `$${` is a literal `${`.

    A text that is one `${…}` gives one expression, whose value keeps its type.

    Raises:
        BadExpression: see `parse_expression`; columns count from the beginning of the whole text.
    """
    parts: list[str | Expression] = []
    literal, position = "", 0
    for opening in _OPENING.finditer(text):
        if opening.start() < position:
            continue
        literal += text[position : opening.start()]
        if opening.group() == "$${":
            literal += "${"
            position = opening.end()
            continue
        tree, position = parse_inside(text, opening.end())
        expression = _expression(text[opening.end() : position - 1].strip(), tree, is_condition=False)
        parts += [literal, expression] if literal else [expression]
        literal = ""
    literal += text[position:]
    if literal or not parts:
        parts.append(literal)
    return tuple(parts)


def _expression(text: str, tree: Tree, *, is_condition: bool) -> Expression:
    parts = tuple(parts_of(tree))
    references = tuple(each for each in parts if isinstance(each, Path))
    calls = {each.name for each in parts if isinstance(each, FunctionCall)}
    uses_now = NOW in calls
    return Expression(
        text=text,
        is_condition=is_condition,
        references=references,
        uses_now=uses_now,
        is_constant=not references and not uses_now,
        tree=tree,
        _run=compiled(tree),
        _makes_times=not calls.isdisjoint(MAKE_TIMES),
    )
