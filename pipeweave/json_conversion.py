"""Convert Python values to JSON values: the one conversion of results, progress, details and constants.

| value | JSON |
|---|---|
| pydantic model | `model_dump(mode="json")`, with its sets sorted |
| dataclass, named tuple | an object of its fields; a list |
| datetime, date, time, timedelta | text, ISO 8601 |
| Decimal, UUID, path | text |
| member of an enum | its value |
| set, frozenset | a list, sorted, so that equal sets give equal JSON |
| tuple, and subclasses of list, dict, str, int, float | what they are |

Everything else that is not JSON is refused with a hint that says what to return instead.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import types
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

import orjson

from pipeweave.errors import FieldError, PipeWeaveError
from pipeweave.json_values import json_faults, kind_of
from pipeweave.safe_text import call_safely, safe_text
from pipeweave.size_limits import INLINE_BYTES, MAX_JSON_DEPTH

_MOST_FAULTS = 20
_PLAIN = frozenset({type(None), str, int, float, bool})
_MAX_TEXT = 4_000

# Options of orjson with which it refuses what it would write in another way than this conversion.
LEFT_TO_CONVERSION: Final = (
    orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS
)

JSON_HINT: Final = "use texts, numbers, booleans, None, lists and dicts with text keys"

_Read = Callable[[Any], Any]
# A type that the conversion knows, and the value that takes the place of its values. The first match counts:
# a datetime is a date, too.
_SCALARS: tuple[tuple[type | tuple[type, ...], _Read], ...] = (
    (dt.datetime, lambda value: value.isoformat().replace("+00:00", "Z")),
    (dt.time, lambda value: value.isoformat().replace("+00:00", "Z")),
    (dt.date, dt.date.isoformat),
    (dt.timedelta, lambda value: duration_text(value)),
    ((Decimal, UUID, PurePath), str),
    (bool, bool),
    (str, lambda value: str.__str__(value)),
    (int, int.__int__),
    (float, float.__float__),
)
# Why a value is refused: a type, and what to use instead.
_INSTEAD: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (
        (bytes, bytearray, memoryview),
        "use a text (value.decode(), or base64), or store the bytes and return their place",
    ),
    ((types.GeneratorType, map, filter, zip, range), "use a list: list(value)"),
    (
        (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type),
        "use the function's result, not the function: did you forget to call it?",
    ),
    (types.CoroutineType, "run it in the task: asyncio.run(…)"),
    (BaseException, "raise it, or use str(error)"),
)
# Other objects: an attribute of theirs, and what to use instead.
_BY_ATTRIBUTE = {
    "tolist": "use value.tolist()",
    "to_dict": "use value.to_dict()",
    "__attrs_attrs__": "use attrs.asdict(value)",
    "_asdict": "use value._asdict()",
    "__dict__": "use a dict of its fields, a dataclass or a pydantic model",
}


def to_json_value(value: Any, field: str = "") -> tuple[Any, list[FieldError]]:
    """Convert a value by the table above.

    Args:
        value: any value; it is not changed.
        field: the dotted path of the value; the paths of the errors start with it.

    Returns:
        The JSON value, and what could not be converted (at most 20), each with a hint in `expected`. If there
        are errors, the value is of no use.
    """
    conversion = _Conversion()
    converted = conversion.of(value, field, 0)
    return converted, conversion.faults or json_faults(converted, field, max_depth=MAX_JSON_DEPTH)


def details_of(value: Any) -> Any:
    """The details of an error as JSON that fits in a row (32 KiB), else as text; never raises."""
    converted, faults = call_safely(lambda: to_json_value(value), (None, [FieldError("", "raises")]))
    if not faults and not json_faults(converted, budget=INLINE_BYTES):
        return converted
    return safe_text(repr, value)[:_MAX_TEXT]


def duration_text(value: dt.timedelta) -> str:
    """Write a duration as ISO 8601 does: `P1DT2H3M4.5S`, `-PT30S`."""
    sign, left = ("-", -value) if value < dt.timedelta() else ("", value)
    minutes, seconds = divmod(left.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    exact = f"{seconds}.{left.microseconds:06}".rstrip("0").rstrip(".")
    parts = ((hours, "H", str(hours)), (minutes, "M", str(minutes)), (exact != "0", "S", exact))
    time = "".join(text + unit for present, unit, text in parts if present)
    days = f"{left.days}D" if left.days else ""
    return f"{sign}P{days}" + (f"T{time}" if time or not days else "") if time or days else "PT0S"


class _Conversion:
    """Walks one value; collects what cannot be converted."""

    def __init__(self) -> None:
        self.faults: list[FieldError] = []

    def of(self, value: Any, path: str, depth: int) -> Any:
        if type(value) in _PLAIN:
            return value
        if depth > MAX_JSON_DEPTH or len(self.faults) >= _MOST_FAULTS:
            if depth > MAX_JSON_DEPTH:
                self.wrong(path, f"is nested deeper than {MAX_JSON_DEPTH} levels", None, "too_deep")
            return None
        if isinstance(value, Enum):
            return self.of(value.value, path, depth)
        for kinds, read in _SCALARS:
            if isinstance(value, kinds):
                return read(value)
        try:
            return self.container(value, path, depth)
        except PipeWeaveError:  # the time limit of the call that converts
            raise
        except Exception as error:  # of the object's own code: a property, a serializer of a model
            reason = safe_text(str, error)[:_MAX_TEXT]
            self.wrong(path, f"cannot be read: {type(error).__name__}: {reason}", JSON_HINT)
            return None

    def container(self, value: Any, path: str, depth: int) -> Any:
        if isinstance(value, Mapping):
            return self.object(value.items(), path, depth)
        if isinstance(value, (list, tuple)):
            return self.items(value, path, depth)
        if isinstance(value, (set, frozenset)):
            return _sorted(self.items(value, path, depth))
        if hasattr(type(value), "__pydantic_serializer__") and hasattr(value, "model_dump"):
            return self.of(_dumped(value), path, depth + 1)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = ((each.name, getattr(value, each.name)) for each in dataclasses.fields(value))
            return self.object(fields, path, depth)
        self.wrong(path, f"is {kind_of(value)}, which is not JSON", _instead_of(value))
        return None

    def items(self, values: Iterable[Any], path: str, depth: int) -> list[Any]:
        # Most items are plain, and the path of an item costs more than the item.
        return [
            each if type(each) in _PLAIN else self.of(each, f"{path}[{at}]", depth + 1)
            for at, each in enumerate(values)
        ]

    def object(self, members: Iterable[tuple[Any, Any]], path: str, depth: int) -> dict[str, Any]:
        json_object: dict[str, Any] = {}
        for key, each in members:
            name = key if type(key) is str else self.key(key, path)
            if name in json_object:
                self.wrong(path, f"has two keys that are {name[:40]!r} as text", "use different keys")
            json_object[name] = self.of(each, f"{path}.{name}" if path else name, depth + 1)
        return json_object

    def key(self, key: Any, path: str) -> str:
        """A key as text: the keys that the conversion writes as text, but no number."""
        name = _Conversion().of(key, path, 0)
        if not isinstance(name, str):
            problem = f"has the key {safe_text(repr, key)[:40]}, which is {kind_of(key)}: keys must be text"
            self.wrong(path, problem, "use str(key) as the key")
            return ""
        return name

    def wrong(self, path: str, problem: str, hint: str | None, code: str = "not_json") -> None:
        self.faults.append(FieldError(path, problem, code, hint))


def _dumped(model: Any) -> Any:
    """A pydantic model as JSON. pydantic dumps sets in the order of their hashes, different each time."""
    dumped = model.model_dump(mode="json")
    return _with_sorted_sets(dumped, call_safely(model.model_dump, None))


def _with_sorted_sets(dumped: Any, original: Any) -> Any:
    if isinstance(dumped, list) and isinstance(original, (set, frozenset)):
        return _sorted(dumped)
    if isinstance(dumped, list) and isinstance(original, (list, tuple)) and len(dumped) == len(original):
        return [_with_sorted_sets(*each) for each in zip(dumped, original, strict=True)]
    if isinstance(dumped, dict) and isinstance(original, dict):
        return {name: _with_sorted_sets(each, original.get(name)) for name, each in dumped.items()}
    return dumped


def _sorted(values: list[Any]) -> list[Any]:
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=lambda each: call_safely(lambda: orjson.dumps(each), b""))


def _instead_of(value: Any) -> str:
    for kinds, instead in _INSTEAD:
        if isinstance(value, kinds):
            return instead
    known = (instead for name, instead in _BY_ATTRIBUTE.items() if hasattr(value, name))
    return next(known, JSON_HINT)
