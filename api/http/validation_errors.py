"""Translates pydantic's validation errors into field errors with path, message and expected value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from pipeweave.errors import FieldError
from pipeweave.json_values import json_type

MAX_FIELD_ERRORS = 100

# Pydantic puts the tag of a discriminated union into the path, after the index in its list. They are removed.
_TAGS = ("<flat>", "<nested>")

# "Input should be a valid integer", "List should have at least 1 item".
_RULE = re.compile(r"\w+ should (be|have|match) (.+)", re.DOTALL)

# Pydantic's names of types -> the names in JSON, as input schemas use them.
_TYPES = {
    "a valid string": "a text",
    "a valid dictionary": "an object",
    "an object": "an object",
    "a valid list": "a list",
    "a valid integer": "an integer",
    "a valid number": "a number",
    "a valid boolean": "true or false",
}

# The codes of pydantic -> the codes that input schemas use, so that a client meets one set of codes.
_CODES = {
    "missing": "required",
    "extra_forbidden": "unknown_field",
    "literal_error": "invalid_enum_value",
    "enum": "invalid_enum_value",
    "string_pattern_mismatch": "invalid_string",
    "string_too_short": "too_small",
    "too_short": "too_small",
    "greater_than": "too_small",
    "greater_than_equal": "too_small",
    "string_too_long": "too_big",
    "too_long": "too_big",
    "less_than": "too_big",
    "less_than_equal": "too_big",
}


def field_errors(error: ValidationError, model: type[BaseModel]) -> list[FieldError]:
    """One FieldError per validation error, at most MAX_FIELD_ERRORS. They contain no values of the input."""
    # Of the input only its type is shown: it may be secret, or not UTF-8.
    details = error.errors(include_url=False, include_context=False)
    return [_field_error(detail, model) for detail in details[:MAX_FIELD_ERRORS]]


def _field_error(detail: ErrorDetails, model: type[BaseModel]) -> FieldError:
    kind = detail["type"]
    path = _without_tags(detail["loc"], is_name_last=kind == "extra_forbidden")
    field = dotted(path)
    if kind == "extra_forbidden":
        return unknown_field(field, str(path[-1]), sorted(_names_at(model, path[:-1])))
    code = _CODES.get(kind) or ("invalid_type" if kind.endswith(("_type", "_parsing")) else "invalid")
    said = detail["msg"].removeprefix("Value error, ")
    if kind == "missing" and said == "Field required":
        return FieldError(field, "is required", code)
    if rule := _RULE.match(said):
        expected = _TYPES.get(rule[2], rule[2])
        actual_type = f", not {json_type(detail['input'])}" if kind.endswith("_type") else ""
        return FieldError(field, f"must {rule[1]} {expected}{actual_type}", code, expected)
    return FieldError(field, said, code)


def summary(errors: Sequence[FieldError], subject: str) -> str:
    """The first error as a sentence, and how many others there are: `priority: must be an integer (and 2
    more)`.

    Args:
        subject: what an error without a field is about.
    """
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{errors[0].field or subject}: {errors[0].message}{more}"


def _without_tags(path: Sequence[int | str], *, is_name_last: bool) -> list[int | str]:
    """The path without tags. A last part that is a name made up by the caller is kept, whatever it is."""
    last = len(path) - 1
    return [
        part
        for at, part in enumerate(path)
        if not (part in _TAGS and at and isinstance(path[at - 1], int)) or (is_name_last and at == last)
    ]


def unknown_field(field: str, name: str, known: list[str]) -> FieldError:
    """The error for an unknown name; it suggests the nearest known name."""
    nearest = get_close_matches(name, known, n=1, cutoff=0.6)
    expected = f"one of {', '.join(known)}" if known else "nothing"
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"expected {expected}"
    return FieldError(field, f"is unknown; {hint}", "unknown_field", expected)


def dotted(path: Sequence[int | str]) -> str:
    """The path as text, e.g. `tasks[0].id`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")[:500]


def _names_at(model: type[BaseModel], path: list[int | str]) -> set[str]:
    """The JSON names of the fields of all models that the path may lead to."""
    models = {model}
    for part in (part for part in path if isinstance(part, str)):
        models = {
            inner
            for outer in models
            for name, info in outer.model_fields.items()
            if (info.alias or name) == part
            for inner in _models_in(info.annotation)
        }
    return {info.alias or name for leaf in models for name, info in leaf.model_fields.items()}


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
