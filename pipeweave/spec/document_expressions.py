"""Read the expressions of a pipeline document, and say what is wrong with them and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pipeweave.field_errors import MOST_ERRORS, FieldErrors
from pipeweave.spec.expressions import (
    BadExpression,
    Expression,
    Fault,
    Known,
    Path,
    check,
    parse_condition,
)
from pipeweave.spec.reference_syntax import BadReference, parse
from pipeweave.spec.references import json_type, texts_in

# Roots that have a value at every step, and those that a map has for its items.
STEP_ROOTS = frozenset({"input", "steps", "status", "errors", "variables", "trigger", "run"})
ITEM_ROOTS = frozenset({"item", "mapIndex"})
# And those that a loop has in each round; `last` is `loop.last`.
LOOP_ROOTS = frozenset({"loop", "last"})
# What a run has that takes care of an error.
ERROR_ROOTS = frozenset({"error"})
# What the params of a step with a task have besides: it is resolved where the task is called.
SECRET_ROOTS = frozenset({"secret"})
ALL_ROOTS = STEP_ROOTS | ITEM_ROOTS | LOOP_ROOTS


@dataclass(frozen=True, slots=True)
class Written:
    """An expression where it is written.

    Args:
        field: the field of the document.
        text: all of the text that holds it.
        expression: itself.
        has_item: it is evaluated once for each item of a map.
        has_loop: it is evaluated in each round of a loop.
        is_inside: it is written in the body of a step: what it names around the body, the step refers to.
        roots: those that may have a value at its place.
    """

    field: str
    text: str
    expression: Expression
    has_item: bool = False
    has_loop: bool = False
    is_inside: bool = False
    roots: frozenset[str] = ALL_ROOTS


@dataclass(slots=True)
class ExpressionReader:
    """Reads the expressions of one document.

    Args:
        mistakes: where mistakes go.
        written: the expressions so far.
    """

    mistakes: FieldErrors
    written: list[Written] = field(default_factory=list)

    def condition(self, text: Any, path: str) -> str | None:
        """Read a condition; None if there is none, or a wrong one."""
        if text is None:
            return None
        if not isinstance(text, str) or not text.strip():
            shown = "an empty text" if isinstance(text, str) else json_type(text)
            problem = f'must be an expression such as "input.total > 100", not {shown}'
            self.mistakes.wrong(path, problem, "invalid_type", "string")
            return None
        try:
            self.written.append(Written(path, text, parse_condition(text)))
        except BadExpression as error:
            place = place_in(text, error.column)
            problem = f"is not an expression: {error.message} ({place})"
            self.mistakes.wrong(path, problem, "invalid_expression", error.near)
        return text

    def value(self, value: Any, path: str, *, has_item: bool = False) -> None:
        """Read the texts with expressions in a JSON value."""
        for place, text in texts_in(value, path, self.mistakes.errors):
            try:
                parts = parse(text)
            except BadReference as error:
                self.mistakes.wrong(place, str(error), "invalid_reference")
                continue
            self.written += [
                Written(place, text, each, has_item) for each in parts if not isinstance(each, str)
            ]

    def give_loop(self, first: int) -> None:
        """Let the expressions from this one on refer to the loop that they are in."""
        self.written[first:] = [replace(each, has_loop=True) for each in self.written[first:]]

    def take(self, inner: ExpressionReader) -> None:
        """Take over the expressions of a body."""
        self.written += [replace(each, is_inside=True) for each in inner.written]

    def allow(self, first: int, roots: frozenset[str]) -> None:
        """Let the expressions from this one on refer to these roots alone, and to secrets where they may."""
        self.written[first:] = [
            replace(each, roots=roots | (each.roots & SECRET_ROOTS)) for each in self.written[first:]
        ]

    def allow_secrets(self, first: int) -> None:
        """Let the expressions from this one on refer to secrets, too."""
        self.written[first:] = [
            replace(each, roots=each.roots | SECRET_ROOTS) for each in self.written[first:]
        ]

    def check(self, variables: Mapping[str, Any], input_schema: Mapping[str, Any] | None) -> None:
        """Check what the expressions name and compare. Who reads the steps checks which steps they name.

        Args:
            variables: of the pipeline, by name.
            input_schema: of the pipeline; None without a valid one.
        """
        of_steps = Known(roots=ALL_ROOTS, variables=tuple(variables), input_schema=input_schema)
        for each in self.written:
            if len(self.mistakes.errors) >= MOST_ERRORS:
                return
            known = of_steps if each.roots is ALL_ROOTS else replace(of_steps, roots=each.roots)
            for fault in check(each.expression, known):
                self.fault(fault, each)

    def fault(self, fault: Fault, written: Written) -> None:
        """Add a mistake of an expression."""
        place = place_in(written.text, fault.column)
        self.mistakes.wrong(written.field, f"{fault.message} ({place})", fault.code, fault.near)


def place_in(text: str, column: int) -> str:
    """Where a column of a text is, for people: with its line if the text has several."""
    before = text[: column - 1]
    lines = before.count("\n")
    if "\n" not in text.rstrip():
        return f"column {column}"
    return f"line {lines + 1}, column {column - (before.rfind(chr(10)) + 1)}"


def step_of(path: Path) -> str | None:
    """The id of the step whose output, status or error a path names; None if it names no step."""
    if path.root == "steps":
        return path.step
    if path.root in ("status", "errors") and path.segments:
        key = path.segments[0].key
        return key if isinstance(key, str) else None
    return None
