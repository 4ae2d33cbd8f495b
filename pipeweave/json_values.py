"""Check that a value can be stored as JSON, and write it."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from enum import Enum
from typing import Any
from uuid import UUID

import orjson

from pipeweave.errors import FieldError
from pipeweave.size_limits import MAX_JSON_DEPTH, MAX_VALUE_DEPTH

_MOST_FAULTS = 20
_INT64 = 1 << 63
# The levels that orjson writes.
_DEEPEST = 254
_TOO_DEEP = f"it is nested deeper than {MAX_JSON_DEPTH} levels"


def write_json(value: Any, option: int = 0) -> bytes:
    """Write a value as JSON text.

    Args:
        option: of orjson.

    Raises:
        TypeError: it is not JSON, or is nested deeper than MAX_JSON_DEPTH.
    """
    try:
        content = orjson.dumps(value, option=option)
    except TypeError as error:
        raise _refused(error) from None
    # Only a value that may be too deep is written again, with so many levels around it that it then is.
    if content.count(b"[") + content.count(b"{") > MAX_JSON_DEPTH:
        around = value
        for _ in range(_DEEPEST - MAX_JSON_DEPTH):
            around = [around]
        try:
            orjson.dumps(around, option=option)
        except TypeError as error:
            raise _refused(error) from None
    return content


def _refused(error: TypeError) -> TypeError:
    return TypeError(_TOO_DEEP) if "Recursion limit" in str(error) else error


def own_copy(value: Any) -> Any:
    """A copy of a JSON value for one call: what its function changes is seen by no other call of the run."""
    if not isinstance(value, dict | list):
        return value
    try:
        return orjson.loads(orjson.dumps(value))
    except TypeError:
        # Parameters around an output, each as deep as it may be, are deeper than orjson writes.
        return copy.deepcopy(value)


def json_faults(
    value: Any,
    field: str = "",
    *,
    budget: int | None = None,
    max_depth: int = MAX_VALUE_DEPTH,
    takes_natives: bool = False,
) -> list[FieldError]:
    """List the first places (at most 20) where a value is not JSON that can be stored.

    Refused are: types that JSON does not have (tuples count as lists), keys that are not text, numbers that
    are not finite or need more than 64 bits, texts with U+0000 or half a surrogate pair, too deep nesting.
    The walk does not recurse, because values come from users and may be nested deeply.

    Args:
        value: the value to check.
        field: the dotted path of the value; the paths of the faults start with it.
        budget: the size that the value may have, about, in characters of JSON. A larger value gives one fault
            `too_large`, which ends the walk. None for no limit.
        max_depth: how deep lists and objects may be nested.
        takes_natives: take UUIDs and members of enums, too, as orjson does: it writes a UUID as a text, and
            of a member its value.
    """
    faults: list[FieldError] = []
    left = budget if budget is not None else math.inf
    stack: list[tuple[str, Any, int]] = [(field, value, 0)]
    while stack and len(faults) < _MOST_FAULTS:
        path, each, depth = stack.pop()
        left -= 1 + len(each) if isinstance(each, str) else 1
        if takes_natives and isinstance(each, Enum):
            each = each.value
        if left < 0:
            return [
                *faults,
                FieldError(field, f"takes more than {budget} characters of JSON", "too_large"),
            ]
        if not isinstance(each, (Mapping, list, tuple)):
            if takes_natives and type(each) is UUID:
                continue
            if problem := _scalar_fault(each):
                faults.append(FieldError(path, problem, "not_json"))
        elif depth >= max_depth:
            faults.append(FieldError(path, f"is nested deeper than {max_depth} levels", "too_deep"))
        elif isinstance(each, Mapping):
            for key, item in reversed(list(each.items())):
                left -= len(key) if isinstance(key, str) else 0
                if problem := _key_fault(key):
                    faults.append(FieldError(path, problem, "not_json"))
                stack.append((f"{path}.{key}" if path else str(key), item, depth + 1))
        else:
            stack += [(f"{path}[{at}]", each[at], depth + 1) for at in range(len(each) - 1, -1, -1)]
    return faults[:_MOST_FAULTS]


def _scalar_fault(value: Any) -> str | None:
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, str):
        return _text_fault(value)
    if isinstance(value, int):
        return None if -_INT64 <= value < 2 * _INT64 else "is an integer of more than 64 bits"
    if isinstance(value, float):
        return None if math.isfinite(value) else f"is {value}, which JSON does not have"
    return f"is {kind_of(value)}, which is not JSON"


def _key_fault(key: Any) -> str | None:
    if not isinstance(key, str):
        return f"has the key {str(key)[:40]!r}, which is {kind_of(key)}: keys must be text"
    problem = _text_fault(key)
    return f"has a key that {problem}" if problem else None


def _text_fault(text: str) -> str | None:
    if "\x00" in text:
        return "holds the character U+0000, which PostgreSQL cannot store"
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return "holds half of a surrogate pair, which is not Unicode text"
    return None


def json_type(value: Any) -> str:
    """Name the JSON type of a value, with its article: `a number`, `an object`."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list() | tuple():
            return "a list"
        case Mapping():
            return "an object"
        case _:
            return kind_of(value)


_KINDS = {
    "NoneType": "None",
    "int": "an integer",
    "str": "a text",
    "bool": "a boolean",
    "float": "a number",
    "bytes": "bytes",
}


def kind_of(value: Any) -> str:
    """Name the Python type of a value, with its article: `an integer`, `a set`, `an Order`."""
    name = type(value).__name__
    return _KINDS.get(name) or f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
