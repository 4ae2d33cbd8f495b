"""Check inputs against the parameters of a task's function, as the call of the task fills them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any

from pipeweave.errors import FieldError
from pipeweave.field_errors import MOST_ERRORS
from pipeweave.schema.validation import member_errors, validate_input

# A parameter of this name gets the whole input where the input has no member of that name.
_WHOLE = "input"


def task_input_schema(
    declared: Mapping[str, Any] | None, parameters: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """The schema of what a task takes as an input: the one that it declares, else the one that its parameters
    stand for; None when neither says anything.
    """
    if declared is not None:
        return dict(declared)
    parameter_fields = () if parameters is None else parameters["fields"]
    fields = [each for each in parameter_fields if each["name"] != _WHOLE]
    whole: Mapping[str, Any] = next((each for each in parameter_fields if each["name"] == _WHOLE), {})
    known = {each["name"] for each in fields}
    fields += [each for each in whole.get("properties", ()) if each["name"] not in known]
    # An input may have members that the function does not take.
    return {"fields": fields, "strict": False} if fields else None


def task_input_errors(
    declared: Mapping[str, Any] | None, parameters: Mapping[str, Any] | None, value: Any
) -> list[FieldError]:
    """List the mistakes in a task's input, at most MOST_ERRORS: those that its declared schema finds, and
    those for which the call of its function would refuse it.
    """
    errors = validate_input(declared, value)
    wrong_fields = {each.field for each in errors}
    more = (each for each in _of_parameters(parameters, value) if each.field not in wrong_fields)
    return list(islice(chain(errors, more), MOST_ERRORS))


def _of_parameters(parameters: Mapping[str, Any] | None, value: Any) -> Iterator[FieldError]:
    if parameters is None:
        return
    members = value if isinstance(value, Mapping) else {}
    for each in parameters["fields"]:
        if each["name"] not in members and each["name"] != _WHOLE and each.get("required"):
            yield FieldError(each["name"], "is required", "missing")
    yield from member_errors([each for each in parameters["fields"] if each["name"] in members], members)
    for whole in parameters["fields"]:
        if whole["name"] == _WHOLE and _WHOLE not in members:
            for each in member_errors([whole], {_WHOLE: value}):
                field = each.field.removeprefix(_WHOLE).removeprefix(".")
                yield FieldError(field, each.message, each.code, each.expected)
