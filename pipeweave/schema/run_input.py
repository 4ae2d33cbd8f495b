"""Check the input of a run against the input schema of its pipeline.

The schema was checked when the pipeline was defined. Other than for the input of a task, an absent input is
an empty object, and each unknown name is answered with the nearest known one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any

from pipeweave.errors import FieldError
from pipeweave.field_errors import MOST_ERRORS
from pipeweave.json_values import json_type
from pipeweave.schema.validation import member_errors
from pipeweave.suggestions import did_you_mean

_MOST_HINTS = 10
_SHOWN = 20


def run_input_errors(schema: Mapping[str, Any] | None, value: Any) -> list[FieldError]:
    """List the mistakes in the input of a run, at most MOST_ERRORS; none if there is no schema."""
    if schema is None:
        return []
    fields = schema["fields"]
    names = [str(each["name"]) for each in fields]
    members = {} if value is None else value
    if not isinstance(members, Mapping):
        problem = f"must be an object with the pipeline's inputs ({_listed(names)}), not {json_type(value)}"
        return [FieldError("", problem, "invalid_type", "object")] if names else []
    present = [each for each in fields if each["name"] in members]
    missing = (each["name"] for each in fields if each.get("required") and each["name"] not in members)
    unknown = _unknown(names, members) if schema.get("strict") else iter(())
    absent = (FieldError(str(name), "is required", "missing") for name in missing)
    return list(islice(chain(unknown, absent, member_errors(present, members)), MOST_ERRORS))


def _unknown(names: list[str], members: Mapping[str, Any]) -> Iterator[FieldError]:
    known = set(names)
    unknown = (str(key) for key in members if key not in known)
    for place, key in enumerate(unknown):
        listed = f"its inputs are {_listed(names)}" if names else "it has no inputs"
        hint = did_you_mean(key, names, listed) if place < _MOST_HINTS else listed
        yield FieldError(key[:200], f"is not an input of this pipeline; {hint}", "unknown_input")


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
