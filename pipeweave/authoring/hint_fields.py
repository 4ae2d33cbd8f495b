"""Describe type hints as fields of an input schema (`pipeweave.schema`).

A field never refuses what the hint accepts from JSON of the exact type: what the format cannot say is left
unchecked (`json`), and constraints such as `Field(gt=0)` are left to the task's own check. JSON has types: a
text is no number here, although pydantic would convert it.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime as dt
import types
import typing
from collections import deque
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path, PurePath
from typing import Any
from uuid import UUID

Shape = dict[str, Any]

_DEEPEST = 8
_TYPES: dict[Any, str] = {
    str: "string",
    bytes: "string",
    UUID: "string",
    Path: "string",
    PurePath: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    dt.date: "date",
    dt.datetime: "datetime",
}
_LISTS = (list, set, frozenset, tuple, deque, collections.abc.Sequence, collections.abc.Set)
_OBJECTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_WRAPPERS = frozenset({"Required", "NotRequired", "ReadOnly"})
_DECORATORS = ("validators", "field_validators", "root_validators", "model_validators")
_CONSTRAINTS = frozenset(
    {"Strict", "StringConstraints", "PydanticGeneralMetadata", "_PydanticGeneralMetadata"}
)


def field_of(name: str, hint: Any, *, is_required: bool, is_nullable: bool = False) -> Shape:
    """The field of a parameter.

    Args:
        name: the parameter's name.
        hint: its type hint; Any if it has none.
        is_required: whether it has no default.
        is_nullable: whether null is valid, too, because it is the default.
    """
    label = name.replace("_", " ").strip().capitalize() or name
    field = {"name": name, "label": label, "required": is_required, **_shape(hint, ())}
    if is_nullable and field["type"] != "json":
        field["nullable"] = True
    return field


def _shape(hint: Any, inside: tuple[Any, ...]) -> Shape:
    """The members of a field that say what its value is.

    Args:
        inside: the types around the hint; a type that holds itself is not described again.
    """
    if len(inside) > _DEEPEST or any(hint is each for each in inside):
        return _anything()
    type_name = _TYPES.get(hint) if isinstance(hint, collections.abc.Hashable) else None
    if type_name is not None:
        return {"type": type_name}
    if hint in _LISTS or hint in _OBJECTS:
        return {"type": "array" if hint in _LISTS else "object"}
    origin = typing.get_origin(hint)
    if origin is not None:
        return _generic(hint, origin, inside)
    if hasattr(hint, "__supertype__"):
        return _shape(hint.__supertype__, (*inside, hint))
    if hasattr(hint, "__required_keys__"):
        return _typed_dict(hint, inside)
    if isinstance(hint, type):
        return _class(hint, inside)
    return _anything()


def _anything() -> Shape:
    return {"type": "json"}


def _generic(hint: Any, origin: Any, inside: tuple[Any, ...]) -> Shape:
    arguments = typing.get_args(hint)
    if origin is typing.Annotated:
        is_plain = all(_is_constraint(each) for each in arguments[1:])
        return _shape(arguments[0], inside) if is_plain else _anything()
    if getattr(origin, "_name", None) in _WRAPPERS:
        return _shape(arguments[0], inside)
    if origin is typing.Literal:
        return _options(arguments)
    if origin in (typing.Union, types.UnionType):
        return _union(arguments, inside)
    if origin in _LISTS:
        return _list(origin, arguments, (*inside, hint))
    return {"type": "object"} if origin in _OBJECTS else _anything()


def _union(arguments: tuple[Any, ...], inside: tuple[Any, ...]) -> Shape:
    others = [each for each in arguments if each is not type(None)]
    if len(others) != 1:
        return _anything()
    shape = _shape(others[0], inside)
    return shape if shape["type"] == "json" else {**shape, "nullable": True}


def _list(origin: Any, arguments: tuple[Any, ...], inside: tuple[Any, ...]) -> Shape:
    is_fixed = origin is tuple and not (len(arguments) == 2 and arguments[1] is Ellipsis)
    items = _anything() if is_fixed or not arguments else _shape(arguments[0], inside)
    if items["type"] == "json":
        return {"type": "array"}
    return {"type": "array", "items": {"name": "item", "label": "Item", **items}}


def _options(values: Iterable[Any]) -> Shape:
    choices = list(values)
    named = [each for each in choices if each is not None]
    if not named or not all(type(each) in (str, int, bool) for each in named):
        return _anything()
    shape: Shape = {"type": "select", "options": [{"label": str(each), "value": each} for each in named]}
    return shape if len(named) == len(choices) else {**shape, "nullable": True}


def _class(hint: type, inside: tuple[Any, ...]) -> Shape:
    if issubclass(hint, Enum):
        accepts_more = any("_missing_" in vars(each) for each in hint.__mro__ if each is not Enum)
        return _anything() if accepts_more else _options(each.value for each in hint)
    if hasattr(hint, "__pydantic_core_schema__") or hasattr(hint, "__pydantic_config__"):
        return _model(hint, inside)
    return _dataclass(hint, inside) if dataclasses.is_dataclass(hint) else _anything()


def _object(fields: Iterable[tuple[str, Any, bool]], inside: tuple[Any, ...]) -> Shape:
    properties = [
        {"name": name, "label": name, "required": is_required, **_shape(hint, inside)}
        for name, hint, is_required in fields
    ]
    return {"type": "object", "properties": properties}


def _typed_dict(hint: Any, inside: tuple[Any, ...]) -> Shape:
    hints = _hints(hint)
    required = hint.__required_keys__
    if hints is None or hasattr(hint, "__pydantic_config__"):
        return {"type": "object"}
    members = ((name, each, _is_required(each, name in required)) for name, each in hints.items())
    return _object(members, (*inside, hint))


def _is_required(hint: Any, by_default: bool) -> bool:
    """Whether a member of a TypedDict is required; its class does not see markers in hints that are texts."""
    marker = getattr(typing.get_origin(hint), "_name", None)
    return by_default if marker not in ("Required", "NotRequired") else marker == "Required"


def _dataclass(hint: Any, inside: tuple[Any, ...]) -> Shape:
    hints = _hints(hint)
    # What `InitVar` and `__get_pydantic_core_schema__` take cannot be seen here.
    has_own = hasattr(hint, "__get_pydantic_core_schema__") or any(
        isinstance(each, dataclasses.InitVar) for each in (hints or {}).values()
    )
    if hints is None or has_own:
        return _anything()
    missing = dataclasses.MISSING
    fields = (
        (each.name, hints[each.name], each.default is missing and each.default_factory is missing)
        for each in dataclasses.fields(hint)
        if each.init
    )
    return _object(fields, (*inside, hint))


def _model(hint: Any, inside: tuple[Any, ...]) -> Shape:
    """A pydantic model: its fields, unless it has validators, aliases or a schema of its own."""
    fields = getattr(hint, "model_fields", None)
    if not isinstance(fields, Mapping) or getattr(hint, "__pydantic_root_model__", False):
        return _anything()
    decorators = getattr(hint, "__pydantic_decorators__", None)
    has_validators = any(getattr(decorators, each, None) for each in _DECORATORS)
    own = [each for each in hint.__mro__ if not each.__module__.startswith("pydantic.")]
    has_schema = any("__get_pydantic_core_schema__" in vars(each) for each in own[:-1])
    is_plain = all(map(_is_constraint, fields.values()))
    if has_validators or has_schema or not is_plain or not getattr(hint, "__pydantic_complete__", False):
        return _anything()
    listed = ((name, each.annotation, bool(each.is_required())) for name, each in fields.items())
    return _object(listed, (*inside, hint))


def _is_constraint(metadata: Any) -> bool:
    """Whether a part of `Annotated` only narrows what is valid, or is for people."""
    kind = type(metadata)
    if kind.__name__ == "FieldInfo":
        return all(map(_is_constraint, metadata.metadata)) and not metadata.validation_alias
    return kind is str or kind.__name__ in _CONSTRAINTS or kind.__module__.startswith("annotated_types")


def _hints(hint: Any) -> dict[str, Any] | None:
    try:
        return typing.get_type_hints(hint, include_extras=True)
    except Exception:  # a hint is the user's code
        return None
