"""Check inputs against a task's input schema and fill in its defaults.

A schema is `{"fields": [{"name", "type", "label", …}], "strict": false}`. The error codes are those of the
worker protocol (`invalid_type`, `too_small`, …). Paths are dotted and include list indexes (`tags.0`).
`showIf` affects forms only: a hidden required field is still required.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pipeweave.errors import FieldError
from pipeweave.schema.definition import validate_schema
from pipeweave.schema.formats import is_date, is_email, is_url, search, utf16_length

__all__ = ["apply_defaults", "validate_input", "validate_schema"]

Check = Callable[[Mapping[str, Any], Any, str], list[FieldError]]


def validate_input(schema: Mapping[str, Any] | None, value: Any) -> list[FieldError]:
    """List the mistakes of an input; empty if the schema accepts it, or if there is no schema.

    An invalid schema gives one error with the field `_schema` and the code `invalid_schema`. A pattern that
    Python cannot compile is ignored, because other languages have patterns that Python does not know.
    """
    if schema is None:
        return []
    wrong = [each for each in validate_schema(schema) if each.code != "invalid_pattern"]
    if wrong:
        return [FieldError("_schema", f"{wrong[0].field} {wrong[0].message}", "invalid_schema")]
    if not isinstance(value, Mapping):
        return [_wrong_type("", "object", value)]
    errors = _members(schema["fields"], value, "")
    if schema.get("strict"):
        known = {each["name"] for each in schema["fields"]}
        unknown = [str(key) for key in value if key not in known]
        if unknown:
            shown = ", ".join(repr(key) for key in unknown[:20])
            errors.append(FieldError("", f"Unrecognized key(s) in object: {shown}", "unrecognized_keys"))
    return errors


def apply_defaults(schema: Mapping[str, Any] | None, value: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a valid input and fill in the defaults of missing optional fields; unknown members stay."""
    filled = dict(value)
    for each in (schema or {}).get("fields", ()):
        if each["name"] not in filled and "default" in each and not each.get("required"):
            filled[each["name"]] = each["default"]
    return filled


def _members(fields: list[Mapping[str, Any]], value: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in fields:
        place = f"{path}.{field['name']}" if path else str(field["name"])
        if field["name"] in value:
            errors += _check(field, value[field["name"]], place)
        elif field.get("required") and field["type"] in ("date", "datetime"):
            errors.append(FieldError(place, "Invalid date", "invalid_date"))
        elif field.get("required") and field["type"] != "json":
            errors.append(FieldError(place, "Required", "invalid_type", _EXPECTED.get(field["type"])))
    return errors


def _check(field: Mapping[str, Any], value: Any, path: str) -> list[FieldError]:
    return _CHECKS[field["type"]](field, value, path)


def _text(field: Mapping[str, Any], value: Any, path: str) -> list[FieldError]:
    if not isinstance(value, str):
        return [_wrong_type(path, "string", value)]
    errors: list[FieldError] = []
    if field["type"] == "email" and not is_email(value):
        errors.append(FieldError(path, "Invalid email address", "invalid_string", "email"))
    if field["type"] == "url" and not is_url(value):
        errors.append(FieldError(path, "Invalid URL", "invalid_string", "url"))
    length = utf16_length(value)
    shortest, longest = field.get("minLength"), field.get("maxLength")
    if shortest is not None and length < shortest:
        errors.append(FieldError(path, f"Minimum length is {shortest}", "too_small"))
    if longest is not None and length > longest:
        errors.append(FieldError(path, f"Maximum length is {longest}", "too_big"))
    pattern = field.get("pattern")
    if pattern is not None and not search(pattern, value):
        errors.append(FieldError(path, "Invalid format", "invalid_string", pattern))
    return errors


def _number(field: Mapping[str, Any], value: Any, path: str) -> list[FieldError]:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return [_wrong_type(path, "number", value)]
    errors: list[FieldError] = []
    if field["type"] == "integer" and isinstance(value, float) and not value.is_integer():
        errors.append(FieldError(path, "Must be an integer", "invalid_type", "integer"))
    if field.get("min") is not None and value < field["min"]:
        errors.append(FieldError(path, f"Minimum value is {field['min']}", "too_small"))
    if field.get("max") is not None and value > field["max"]:
        errors.append(FieldError(path, f"Maximum value is {field['max']}", "too_big"))
    return errors


def _boolean(field: Mapping[str, Any], value: Any, path: str) -> list[FieldError]:
    return [] if isinstance(value, bool) else [_wrong_type(path, "boolean", value)]


def _date(field: Mapping[str, Any], value: Any, path: str) -> list[FieldError]:
    return [] if is_date(value) else [FieldError(path, "Invalid date", "invalid_date", "date")]


def _select(field: Mapping[str, Any], value: Any, path: str) -> list[FieldError]:
    options = [each["value"] for each in field.get("options") or ()]
    if not options or any(_same(value, each) for each in options):
        return []
    shown = " | ".join(repr(each) for each in options[:20])
    if not all(isinstance(each, str) for each in options):
        code = "invalid_literal" if len(options) == 1 else "invalid_union"
        return [FieldError(path, f"Invalid input, expected {shown}", code, shown)]
    if not isinstance(value, str):
        return [_wrong_type(path, shown, value)]
    return [FieldError(path, f"Invalid enum value. Expected {shown}", "invalid_enum_value", shown)]


def _multiselect(field: Mapping[str, Any], value: Any, path: str) -> list[FieldError]:
    if not isinstance(value, list):
        return [_wrong_type(path, "array", value)]
    return [error for place, each in enumerate(value) for error in _select(field, each, f"{path}.{place}")]


def _array(field: Mapping[str, Any], value: Any, path: str) -> list[FieldError]:
    if not isinstance(value, list):
        return [_wrong_type(path, "array", value)]
    items = field.get("items")
    if items is None:
        return []
    return [error for place, each in enumerate(value) for error in _check(items, each, f"{path}.{place}")]


def _object(field: Mapping[str, Any], value: Any, path: str) -> list[FieldError]:
    if not isinstance(value, Mapping):
        return [_wrong_type(path, "object", value)]
    return _members(field.get("properties") or [], value, path)


def _anything(field: Mapping[str, Any], value: Any, path: str) -> list[FieldError]:
    return []


def _same(value: Any, option: Any) -> bool:
    """Compare as the worker protocol does: 1 and 1.0 are the same number, true is not a number."""
    return isinstance(value, bool) == isinstance(option, bool) and value == option


def _wrong_type(path: str, expected: str, value: Any) -> FieldError:
    return FieldError(path, f"Expected {expected}, received {_type_of(value)}", "invalid_type", expected)


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


_CHECKS: dict[str, Check] = {
    "string": _text,
    "textarea": _text,
    "email": _text,
    "url": _text,
    "file": lambda field, value, path: [] if isinstance(value, str) else [_wrong_type(path, "string", value)],
    "number": _number,
    "integer": _number,
    "boolean": _boolean,
    "date": _date,
    "datetime": _date,
    "select": _select,
    "multiselect": _multiselect,
    "json": _anything,
    "array": _array,
    "object": _object,
}

_EXPECTED = {
    **dict.fromkeys(("string", "textarea", "email", "url", "file"), "string"),
    **dict.fromkeys(("number", "integer"), "number"),
    **dict.fromkeys(("multiselect", "array"), "array"),
    "boolean": "boolean",
    "object": "object",
}
