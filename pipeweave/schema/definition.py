"""Check that an input schema itself is valid: its fields, types, bounds, options and `showIf` rules."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pipeweave.errors import FieldError
from pipeweave.field_errors import FieldErrors
from pipeweave.json_values import json_faults
from pipeweave.schema.patterns import pattern_fault
from pipeweave.suggestions import did_you_mean

TYPES = (
    "string", "textarea", "email", "url", "number", "integer", "boolean", "date",
    "datetime", "select", "multiselect", "json", "file", "array", "object",
)  # fmt: skip
OPERATORS = ("eq", "ne", "gt", "lt", "gte", "lte", "in", "notIn")

_TEXTS = ("description", "placeholder", "helpText", "accept")
_COUNTS = ("minLength", "maxLength")
_NUMBERS = ("min", "max", "maxSize")
_MEMBERS = (
    *(
        "name",
        "type",
        "label",
        "required",
        "nullable",
        "default",
        "pattern",
        "options",
        "items",
        "properties",
        "showIf",
    ),
    *(*_TEXTS, *_COUNTS, *_NUMBERS),
)
_MAX_DEPTH = 16
_MAX_FIELDS = 1_000
_MAX_PATTERN = 1_000


def validate_schema(schema: Any) -> list[FieldError]:
    """List every mistake in a schema, each with its place (`fields[2].options[0].value`)."""
    faults = json_faults(schema, budget=1_000_000)
    if faults:
        return faults
    if not isinstance(schema, Mapping):
        return [FieldError("", "must be an object with `fields`", "invalid_type", "object")]
    definition = _Definition()
    definition.unknown_keys(schema, ("fields", "strict"), "")
    if not isinstance(schema.get("strict", False), bool):
        definition.wrong("strict", "must be true or false", "invalid_type")
    definition.fields(schema.get("fields"), "fields", 0)
    return definition.errors


class _Definition(FieldErrors):
    """Walks one schema and collects its mistakes."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def fields(self, listed: Any, path: str, depth: int) -> None:
        if not isinstance(listed, list):
            self.wrong(path, "must be a list of fields", "invalid_type")
            return
        names: set[str] = set()
        for place, field in enumerate(listed):
            self.field(field, f"{path}[{place}]", depth)
            name = field.get("name") if isinstance(field, Mapping) else None
            if isinstance(name, str):
                if name in names:
                    self.wrong(
                        f"{path}[{place}].name", f"{name!r} is the name of another field, too", "duplicate"
                    )
                names.add(name)
        for place, field in enumerate(listed):
            if isinstance(field, Mapping) and field.get("showIf") is not None:
                self.show_if(field["showIf"], f"{path}[{place}].showIf", names)

    def field(self, field: Any, path: str, depth: int) -> None:
        self.count += 1
        if depth >= _MAX_DEPTH or self.count > _MAX_FIELDS:
            limit = f"at most {_MAX_FIELDS} fields, nested at most {_MAX_DEPTH} deep, are allowed"
            if not any(error.code == "too_large" for error in self.errors):
                self.wrong(path, limit, "too_large")
            return
        if not isinstance(field, Mapping):
            self.wrong(path, "must be an object", "invalid_type")
            return
        self.unknown_keys(field, _MEMBERS, path)
        self.kind(field, path)
        self.texts(field, path)
        self.bounds(field, path)
        self.options(field.get("options"), f"{path}.options")
        if field.get("items") is not None:
            self.field(field["items"], f"{path}.items", depth + 1)
        if field.get("properties") is not None:
            self.fields(field["properties"], f"{path}.properties", depth + 1)

    def kind(self, field: Mapping[str, Any], path: str) -> None:
        for member in ("name", "label"):
            if not isinstance(field.get(member), str) or not field[member]:
                self.wrong(f"{path}.{member}", "is required, a text", "missing")
        if field.get("type") not in TYPES:
            field_type = field.get("type")
            hint = did_you_mean(str(field_type), TYPES, f"the types are {', '.join(TYPES)}")
            self.wrong(f"{path}.type", f"is {str(field_type)[:80]!r}; {hint}", "invalid_value")
        for member in ("required", "nullable"):
            if not isinstance(field.get(member, False), bool):
                self.wrong(f"{path}.{member}", "must be true or false", "invalid_type")

    def texts(self, field: Mapping[str, Any], path: str) -> None:
        for member in _TEXTS:
            if field.get(member) is not None and not isinstance(field[member], str):
                self.wrong(f"{path}.{member}", "must be a text", "invalid_type")
        pattern = field.get("pattern")
        if pattern is None:
            return
        if not isinstance(pattern, str) or len(pattern) > _MAX_PATTERN:
            self.wrong(
                f"{path}.pattern", f"must be a text of at most {_MAX_PATTERN} characters", "invalid_type"
            )
        elif fault := pattern_fault(pattern):
            self.wrong(f"{path}.pattern", f"is not a regular expression: {fault}", "invalid_pattern")

    def bounds(self, field: Mapping[str, Any], path: str) -> None:
        for member in (*_COUNTS, *_NUMBERS):
            value = field.get(member)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                self.wrong(f"{path}.{member}", f"must be a number, not {value!r}", "invalid_type")
            elif member in _COUNTS and (value < 0 or value != int(value)):
                self.wrong(
                    f"{path}.{member}", f"must be a whole number from 0, not {value!r}", "out_of_range"
                )

    def options(self, options: Any, path: str) -> None:
        if options is None:
            return
        if not isinstance(options, list):
            self.wrong(path, "must be a list of {label, value}", "invalid_type")
            return
        for place, each in enumerate(options):
            if not isinstance(each, Mapping) or not isinstance(each.get("label"), str):
                self.wrong(f"{path}[{place}]", "must be {label, value}, the label a text", "invalid_type")
            elif not isinstance(each.get("value"), (str, int, float, bool)):
                self.wrong(f"{path}[{place}].value", "must be a text, a number or a boolean", "invalid_type")

    def show_if(self, rule: Any, path: str, names: set[str]) -> None:
        if not isinstance(rule, Mapping):
            self.wrong(path, "must be {field, operator, value}", "invalid_type")
            return
        self.unknown_keys(rule, ("field", "operator", "value"), path)
        if rule.get("field") not in names:
            self.wrong(
                f"{path}.field", f"{rule.get('field')!r} is not a field of the same object", "unknown_field"
            )
        if rule.get("operator") not in OPERATORS:
            self.wrong(f"{path}.operator", f"must be one of {', '.join(OPERATORS)}", "invalid_value")
