"""Write values of a `@pipeline` function as a pipeline document has them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pipeweave.authoring.placeholder import Placeholder, expression_of, find_placeholder, reference_of
from pipeweave.errors import FieldError, InvalidSpec
from pipeweave.json_conversion import to_json_value
from pipeweave.json_values import kind_of
from pipeweave.spec import escape


def written(value: Any, path: str, *, is_template: bool = False) -> Any:
    """Convert an argument, or a pipeline's result, to its form in a spec: placeholders become references,
    constants JSON values, and other texts are escaped.

    Args:
        path: the field of the value, for errors.
        is_template: texts may hold `${…}`, so they stay as they are.

    Raises:
        InvalidSpec: a constant cannot be converted to JSON.
    """
    if isinstance(value, Placeholder):
        return reference_of(value)
    if type(value) is str:
        return value if is_template else escape(value)
    if isinstance(value, Mapping):
        return {key: written(each, f"{path}.{key}", is_template=is_template) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [
            written(each, f"{path}[{place}]", is_template=is_template) for place, each in enumerate(value)
        ]
    if value is None or type(value) in (bool, int, float):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        members = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        return written(members, path, is_template=is_template)
    return _constant(value, path)


def template(value: Any, path: str) -> Any:
    """Convert a value whose texts are templates; see `written`."""
    return written(value, path, is_template=True)


def _constant(value: Any, path: str) -> Any:
    if find_placeholder(value) is not None:
        problem = f"is {kind_of(value)} of results, which has no order"
        raise InvalidSpec(
            f"{path} {problem}", errors=[FieldError(path, problem, "not_json")], hint="use a list"
        )
    converted, faults = to_json_value(value, path)
    if faults:
        raise InvalidSpec(f"{faults[0].field} {faults[0].message}", errors=faults, hint=faults[0].expected)
    return written(converted, path)


def constant(value: Any, path: str) -> Any:
    """Convert a value that must be known when the pipeline is drawn; its texts stay as they are.

    Raises:
        InvalidSpec: it is, or has, a placeholder, or is no JSON.
    """
    _refuse_results(value, path)
    converted, faults = to_json_value(value, path)
    if faults:
        raise InvalidSpec(f"{faults[0].field} {faults[0].message}", errors=faults, hint=faults[0].expected)
    return converted


def _refuse_results(value: Any, path: str) -> None:
    if isinstance(value, Placeholder):
        raise InvalidSpec(f"{path} must be a constant, and {reference_of(value)} is known only at run time")
    if isinstance(value, Mapping):
        for key, each in value.items():
            _refuse_results(each, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for place, each in enumerate(value):
            _refuse_results(each, f"{path}[{place}]")


def condition_text(value: Any, where: str) -> str:
    """The expression of a condition.

    Args:
        value: a comparison of placeholders, a placeholder, or the text of an expression.
        where: what has the condition, for errors.

    Raises:
        InvalidSpec: it is a constant: it was computed while the pipeline was drawn.
    """
    if isinstance(value, Placeholder):
        return expression_of(value)
    if isinstance(value, str):
        return value
    raise InvalidSpec(
        f"{where} takes a condition, not {value!r}, which is known before any run"[:300],
        hint="compare a step's result or a parameter of the pipeline: x == None instead of `x is None`,"
        ' x.in_([…]) instead of `in`; or write an expression as a text: "input.total > 100"',
    )
