"""Say what the input schema of a pipeline tells about a path into the input."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pipeweave.spec.expressions.tree import Each, Segment

_KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("string", "textarea", "email", "url"), "text"),
    **dict.fromkeys(("number", "integer"), "number"),
    **dict.fromkeys(("array", "multiselect"), "list"),
    "boolean": "boolean",
    "object": "object",
}


@dataclass(frozen=True, slots=True)
class InputFact:
    """What is known of a part of the input.

    Args:
        kind: one word of `kinds.KINDS`.
        options: the only values that it may have; None if it may have others.
    """

    kind: str = "any"
    options: Collection[Any] | None = None


_ANYTHING: Final = InputFact()


def missing_name(schema: Mapping[str, Any], segments: Sequence[Segment]) -> tuple[str, list[str]] | None:
    """The input that a path names and that the pipeline does not take, and those that it takes.

    A schema that is not strict takes any name.
    """
    if not schema.get("strict") or not segments or not isinstance(segments[0].key, str):
        return None
    names = [str(each["name"]) for each in schema["fields"]]
    return None if segments[0].key in names else (segments[0].key, names)


def input_fact(schema: Mapping[str, Any], segments: Sequence[Segment]) -> InputFact:
    """What a valid schema says about the value at a path."""
    field: Mapping[str, Any] = {"type": "object", "properties": schema["fields"]}
    for segment in segments:
        inner = _inner(field, segment)
        if inner is None or isinstance(segment.key, Each):
            return _ANYTHING
        field = inner
    options = [each["value"] for each in field.get("options") or ()] if field["type"] == "select" else []
    return InputFact(_KINDS.get(field["type"], "any"), options or None)


def _inner(field: Mapping[str, Any], segment: Segment) -> Mapping[str, Any] | None:
    if isinstance(segment.key, str):
        named = (each for each in field.get("properties") or () if each["name"] == segment.key)
        return next(named, None)
    items = field.get("items")
    return items if isinstance(items, Mapping) else None
