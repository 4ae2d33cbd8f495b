"""Check inputs against a task's input schema and fill in its defaults.

A schema is `{"fields": [{"name", "type", "label", …}], "strict": false}`. The error codes are those of the
worker protocol (`invalid_type`, `too_small`, …). Paths are dotted and include list indexes (`tags.0`).
`showIf` affects forms only: a hidden required field is still required.

The input may be hostile: the check stops at MOST_ERRORS errors, and patterns get PATTERNS_S seconds in all.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from pipeweave.errors import FieldError
from pipeweave.field_errors import MOST_ERRORS
from pipeweave.json_values import json_type
from pipeweave.schema.definition import validate_schema
from pipeweave.schema.formats import is_date, is_email, is_url, utf16_length
from pipeweave.schema.patterns import matches

__all__ = ["apply_defaults", "validate_input", "validate_schema"]

MAX_PATTERN_TEXT = 10_000
"""The longest text (characters) that is checked against a pattern."""

PATTERNS_S = 1.0
"""The longest time (s) that one input's patterns may take together."""

MOST_CHECKED = 64
"""The schemas of which it is remembered that they were checked."""

_SHOWN = 20
_SHOWN_CHARS = 80

Field = Mapping[str, Any]


def validate_input(schema: Mapping[str, Any] | None, value: Any) -> list[FieldError]:
    """List the mistakes of an input, at most MOST_ERRORS; empty if the schema accepts it or there is none.

    An invalid schema gives one error with the field `_schema` and the code `invalid_schema`. A pattern that
    is not known here is ignored, because other languages have patterns that this one does not know.
    The schema itself is checked once: whoever changes one makes a new one.
    """
    if schema is None:
        return []
    if (fault := _schema_fault(schema)) is not None:
        return [fault]
    if not isinstance(value, Mapping):
        return [_wrong_type("", "object", value)]
    errors = _InputCheck().members(schema["fields"], value, "")
    unknown = _unknown_members(schema["fields"], value) if schema.get("strict") else ()
    return list(islice(chain(errors, unknown), MOST_ERRORS))


# By the identity of a schema, which is kept beside its fault: to compare schemas would be to read them.
_checked: dict[int, tuple[Mapping[str, Any], FieldError | None]] = {}


def _schema_fault(schema: Mapping[str, Any]) -> FieldError | None:
    """The first mistake in a schema. To look for it costs many times what it costs to check an input."""
    known = _checked.get(id(schema))
    if known is not None and known[0] is schema:
        return known[1]
    wrong = [each for each in validate_schema(schema) if each.code != "invalid_pattern"]
    fault = FieldError("_schema", f"{wrong[0].field} {wrong[0].message}", "invalid_schema") if wrong else None
    if len(_checked) >= MOST_CHECKED:
        _checked.clear()
    _checked[id(schema)] = schema, fault
    return fault


def member_errors(fields: Iterable[Field], value: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the mistakes in the members of an input by the fields of a schema that was checked before."""
    return _InputCheck().members(fields, value, "")


def _unknown_members(fields: Iterable[Field], value: Mapping[str, Any]) -> Iterator[FieldError]:
    known = {each["name"] for each in fields}
    unknown = [str(key) for key in value if key not in known]
    if unknown:
        shown = ", ".join(_cut(key) for key in unknown[:_SHOWN])
        yield FieldError("", f"Unrecognized key(s) in object: {shown}", "unrecognized_keys")


def apply_defaults(schema: Mapping[str, Any] | None, value: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a valid input and fill in the defaults of missing optional fields; unknown members stay."""
    filled = dict(value)
    for each in (schema or {}).get("fields", ()):
        if each["name"] not in filled and "default" in each and not each.get("required"):
            filled[each["name"]] = each["default"]
    return filled


class _InputCheck:
    """Walks one input and yields its mistakes one by one, so that the walk can stop at any of them."""

    def __init__(self) -> None:
        self._patterns_s = PATTERNS_S
        self._options: dict[int, _Options] = {}

    def members(self, fields: Iterable[Field], value: Mapping[str, Any], path: str) -> Iterator[FieldError]:
        for field in fields:
            place = f"{path}.{field['name']}" if path else str(field["name"])
            if field["name"] in value:
                yield from self.check(field, value[field["name"]], place)
            elif field.get("required") and field["type"] in ("date", "datetime"):
                yield FieldError(place, "Required", "invalid_date")
            elif field.get("required") and field["type"] != "json":
                yield FieldError(place, "Required", "invalid_type", _EXPECTED.get(field["type"]))

    def check(self, field: Field, value: Any, path: str) -> Iterator[FieldError]:
        if value is None and field.get("nullable"):
            return iter(())
        return _CHECKS[field["type"]](self, field, value, path)

    def text(self, field: Field, value: Any, path: str) -> Iterator[FieldError]:
        if not isinstance(value, str):
            yield _wrong_type(path, "string", value)
            return
        if field["type"] == "email" and not is_email(value):
            yield FieldError(path, "Invalid email address", "invalid_string", "email")
        if field["type"] == "url" and not is_url(value):
            yield FieldError(path, "Invalid URL", "invalid_string", "url")
        length = utf16_length(value)
        shortest, longest = field.get("minLength"), field.get("maxLength")
        if shortest is not None and length < shortest:
            yield FieldError(path, f"Minimum length is {shortest}", "too_small")
        if longest is not None and length > longest:
            yield FieldError(path, f"Maximum length is {longest}", "too_big")
        if field.get("pattern") is not None:
            yield from self._pattern(field["pattern"], value, path)

    def _pattern(self, pattern: str, value: str, path: str) -> Iterator[FieldError]:
        if len(value) > MAX_PATTERN_TEXT:
            limit = f"A text with a pattern may have at most {MAX_PATTERN_TEXT:,} characters"
            yield FieldError(path, limit, "too_big")
            return
        if self._patterns_s <= 0:
            yield FieldError(path, "The patterns of this input take too long to check", "too_slow", pattern)
            return
        began = time.monotonic()
        fits = matches(pattern, value)
        self._patterns_s -= time.monotonic() - began
        if not fits:
            yield FieldError(path, "Invalid format", "invalid_string", pattern)

    def file(self, field: Field, value: Any, path: str) -> Iterator[FieldError]:
        if not isinstance(value, str):
            yield _wrong_type(path, "string", value)

    def number(self, field: Field, value: Any, path: str) -> Iterator[FieldError]:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            yield _wrong_type(path, "number", value)
            return
        if field["type"] == "integer" and isinstance(value, float) and not value.is_integer():
            yield FieldError(path, "Must be an integer", "invalid_type", "integer")
        if field.get("min") is not None and value < field["min"]:
            yield FieldError(path, f"Minimum value is {field['min']}", "too_small")
        if field.get("max") is not None and value > field["max"]:
            yield FieldError(path, f"Maximum value is {field['max']}", "too_big")

    def boolean(self, field: Field, value: Any, path: str) -> Iterator[FieldError]:
        if not isinstance(value, bool):
            yield _wrong_type(path, "boolean", value)

    def date(self, field: Field, value: Any, path: str) -> Iterator[FieldError]:
        if not is_date(value):
            sample = "2026-11-22" if field["type"] == "date" else "2026-11-22T09:30:00Z"
            yield FieldError(
                path, f"Expected a date such as {sample}, got {_shown(value)}", "invalid_date", "date"
            )

    def select(self, field: Field, value: Any, path: str) -> Iterator[FieldError]:
        options = self._options.get(id(field))
        if options is None:
            options = self._options[id(field)] = _Options(field)
        if not options.has(value):
            yield options.refusal(value, path)

    def multiselect(self, field: Field, value: Any, path: str) -> Iterator[FieldError]:
        yield from self._each(field, value, path, self.select)

    def array(self, field: Field, value: Any, path: str) -> Iterator[FieldError]:
        items = field.get("items")
        yield from self._each(items, value, path, None if items is None else self.check)

    def _each(
        self, field: Any, value: Any, path: str, check: Callable[..., Iterator[FieldError]] | None
    ) -> Iterator[FieldError]:
        if not isinstance(value, list):
            yield _wrong_type(path, "array", value)
        elif check is not None:
            for place, each in enumerate(value):
                yield from check(field, each, f"{path}.{place}")

    def object(self, field: Field, value: Any, path: str) -> Iterator[FieldError]:
        if not isinstance(value, Mapping):
            yield _wrong_type(path, "object", value)
            return
        yield from self.members(field.get("properties") or [], value, path)

    def anything(self, field: Field, value: Any, path: str) -> Iterator[FieldError]:
        yield from ()


class _Options:
    """The options of a select field, made once for all values that are compared with them."""

    def __init__(self, field: Field) -> None:
        values = [each["value"] for each in field.get("options") or ()]
        self._known = {_comparable(each) for each in values}
        self._count = len(values)
        self._are_texts = all(isinstance(each, str) for each in values)
        self._shown = " | ".join(_cut(each) for each in values[:_SHOWN])

    def has(self, value: Any) -> bool:
        """True if the value is an option, or if there are no options."""
        return not self._known or (not isinstance(value, (dict, list)) and _comparable(value) in self._known)

    def refusal(self, value: Any, path: str) -> FieldError:
        """The error of a value that is no option."""
        if not self._are_texts:
            code = "invalid_literal" if self._count == 1 else "invalid_union"
            return FieldError(path, f"Invalid input, expected {self._shown}", code, self._shown)
        if not isinstance(value, str):
            return _wrong_type(path, self._shown, value)
        message = f"Invalid enum value. Expected {self._shown}"
        return FieldError(path, message, "invalid_enum_value", self._shown)


def _comparable(value: Any) -> tuple[bool, Any]:
    """Compare as the worker protocol does: 1 and 1.0 are the same number, true is not a number."""
    return isinstance(value, bool), value


def _cut(value: Any) -> str:
    return repr(value[:_SHOWN_CHARS] if isinstance(value, str) else value)


def _wrong_type(path: str, expected: str, value: Any) -> FieldError:
    wanted = _NAMED.get(expected, expected)
    return FieldError(path, f"Expected {wanted}, got {_shown(value)}", "invalid_type", expected)


_NAMED = {
    "string": "a text",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}


def _shown(value: Any) -> str:
    """A value as its error shows it: short ones as JSON writes them, lists and objects by their type."""
    if isinstance(value, (list, Mapping)):
        return json_type(value)
    is_long = isinstance(value, str) and len(value) > _SHOWN_CHARS
    return json.dumps(value[:_SHOWN_CHARS] + "…" if is_long else value, ensure_ascii=False)


_CHECKS: dict[str, Callable[[_InputCheck, Field, Any, str], Iterator[FieldError]]] = {
    **dict.fromkeys(("string", "textarea", "email", "url"), _InputCheck.text),
    **dict.fromkeys(("number", "integer"), _InputCheck.number),
    **dict.fromkeys(("date", "datetime"), _InputCheck.date),
    "file": _InputCheck.file,
    "boolean": _InputCheck.boolean,
    "select": _InputCheck.select,
    "multiselect": _InputCheck.multiselect,
    "json": _InputCheck.anything,
    "array": _InputCheck.array,
    "object": _InputCheck.object,
}

_EXPECTED = {
    **dict.fromkeys(("string", "textarea", "email", "url", "file"), "string"),
    **dict.fromkeys(("number", "integer"), "number"),
    **dict.fromkeys(("multiselect", "array"), "array"),
    "boolean": "boolean",
    "object": "object",
}
