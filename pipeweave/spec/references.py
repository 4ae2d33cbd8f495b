"""Find the `${…}` in a step's params and map, and replace them by their values.

`${…}` holds an expression; mostly it is a reference: a path that starts at `input`, `steps.<step id>`, `item`
or `mapIndex` and continues with `.name`, `[0]` (`[-1]` is the last) or `["any key"]`. A text that is exactly
one `${…}` is replaced by the value with its type. Inside a longer text, the value is inserted as text: a
string as it is, any other value as JSON. `$${` is a literal `${`.

A predecessor that was skipped or failed has no output: a reference to it gives null. Any other path that
does not exist raises InvalidReference when it is resolved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipeweave.errors import FieldError, InvalidReference, InvalidSpec
from pipeweave.json_values import json_type
from pipeweave.size_limits import MAX_TEXT_CHARS, MAX_VALUE_DEPTH
from pipeweave.spec.expressions import Expression, parse_template
from pipeweave.spec.expressions.values import as_text
from pipeweave.spec.reference_syntax import (
    BadReference,
    Reference,
    escape,
    references_in,
    short,
    show_path,
)

__all__ = [
    "Compiled",
    "Reference",
    "compile_value",
    "escape",
    "find_references",
    "json_type",
    "referenced_parts",
    "referenced_steps",
    "resolve",
    "show_path",
    "texts_in",
]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A JSON value whose `${…}` have been parsed without mistakes."""

    value: Any
    references: tuple[Reference, ...]
    is_constant: bool

    def resolve(
        self,
        *,
        input: Any,
        steps: Mapping[str, Any],
        item: Any = None,
        map_index: int | None = None,
        scope: Mapping[str, Any] | None = None,
        now: datetime | None = None,
    ) -> Any:
        """Replace every `${…}` in the value; see `resolve`."""
        if self.is_constant:
            return self.value
        return resolve(
            self.value, input=input, steps=steps, item=item, map_index=map_index, scope=scope, now=now
        )


def compile_value(value: Any, field: str = "") -> Compiled:
    """Parse every `${…}` in a JSON value.

    Raises:
        InvalidSpec: a `${…}` cannot be parsed, or the value is nested deeper than MAX_VALUE_DEPTH;
            `errors` names each place below `field`.
    """
    references, errors = find_references(value, field)
    if errors:
        raise InvalidSpec(errors[0].message, errors=errors)
    is_constant = next(texts_in(value, "", []), None) is None
    return Compiled(value, tuple(reference for _, reference in references), is_constant)


def referenced_steps(value: Any) -> set[str]:
    """The ids of the steps that a JSON value refers to. Raises InvalidSpec like `compile_value`."""
    return {each.step for each in compile_value(value).references if each.step is not None}


def referenced_parts(references: Iterable[Reference]) -> dict[str, frozenset[int] | None]:
    """List the steps that references name, with the parts of their outputs that are needed: the places in a
    list if every reference to the step starts with a place (`${steps.m[0].rows}`), None for the whole output.
    """
    parts_by_step: dict[str, frozenset[int] | None] = {}
    for each in references:
        if each.step is None:
            continue
        place = each.path[0] if each.path else None
        places = parts_by_step.get(each.step, frozenset())
        if isinstance(place, int) and places is not None:
            parts_by_step[each.step] = places | {place}
        else:
            parts_by_step[each.step] = None
    return parts_by_step


def find_references(value: Any, field: str) -> tuple[list[tuple[str, Reference]], list[FieldError]]:
    """List every reference in a JSON value with its field, and the mistakes in unreadable texts."""
    references: list[tuple[str, Reference]] = []
    errors: list[FieldError] = []
    for path, text in texts_in(value, field, errors):
        try:
            references += [(path, each) for each in references_in(text)]
        except BadReference as error:
            errors.append(FieldError(path, str(error), "invalid_reference"))
    return references, errors


def texts_in(value: Any, field: str, errors: list[FieldError]) -> Iterator[tuple[str, str]]:
    """Yield the texts with references in document order; does not recurse, because users send the values."""
    stack: list[tuple[str, Any, int]] = [(field, value, 0)]
    while stack:
        path, each, depth = stack.pop()
        if isinstance(each, str):
            if "${" in each:
                yield path, each
        elif isinstance(each, (Mapping, list, tuple)):
            if depth >= MAX_VALUE_DEPTH:
                errors.append(FieldError(path, f"is nested deeper than {MAX_VALUE_DEPTH} levels", "too_deep"))
                continue
            stack += [(inner, item, depth + 1) for inner, item in reversed(list(_members(path, each)))]


def _members(path: str, value: Mapping[Any, Any] | Sequence[Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield (f"{path}.{key}" if path else str(key)), item
    else:
        for index, item in enumerate(value):
            yield f"{path}[{index}]", item


def resolve(
    value: Any,
    *,
    input: Any,
    steps: Mapping[str, Any],
    item: Any = None,
    map_index: int | None = None,
    scope: Mapping[str, Any] | None = None,
    now: datetime | None = None,
) -> Any:
    """Replace every `${…}` in a value by the value of its expression.

    Args:
        value: a JSON value that passed `compile_value`; it is not changed.
        input: the run's input.
        steps: output by step id, of the ancestors that completed; other steps have no output.
        item: the item of a map.
        map_index: the item's 0-based index in the list.
        scope: the values of further roots, such as `variables` and `error`; in a body also `item`, which the
            item of a map inside of it hides.
        now: what `now()` gives; without it `now()` fails.

    Raises:
        InvalidReference: a path does not exist, or a text becomes longer than MAX_TEXT_CHARS.
        ExpressionFailed: an expression cannot be evaluated with these values.
    """
    roots = {"input": input, "steps": steps, "item": item, "mapIndex": map_index}
    if scope:
        hidden = () if map_index is None else ("item", "mapIndex")
        roots.update({root: each for root, each in scope.items() if root not in hidden})
    return _resolved(value, roots, now)


def _resolved(value: Any, roots: Mapping[str, Any], now: datetime | None) -> Any:
    if isinstance(value, str):
        if "${" not in value:
            return value
        parts = parse_template(value)
        if len(parts) > 1:
            return _written(value, parts, roots, now)
        part = parts[0]
        return part if isinstance(part, str) else part.evaluate(roots, now=now)
    if isinstance(value, Mapping):
        return {key: _resolved(each, roots, now) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_resolved(each, roots, now) for each in value]
    return value


def _written(
    text: str, parts: Sequence[str | Expression], roots: Mapping[str, Any], now: datetime | None
) -> str:
    written: list[str] = []
    length = 0
    for part in parts:
        written.append(part if isinstance(part, str) else as_text(part.evaluate(roots, now=now)))
        length += len(written[-1])
        if length > MAX_TEXT_CHARS:
            raise InvalidReference(
                f"the text {short(text)!r} becomes longer than {MAX_TEXT_CHARS} characters",
                hint="pass the values to the task as separate parameters",
            )
    return "".join(written)
