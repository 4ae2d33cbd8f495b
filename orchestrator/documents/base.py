"""The base of all documents: it makes them of rows, and the OpenAPI document is built from its classes.

A document is a dictionary. The classes are never instantiated: to check what our own rows say would cost more
than to read them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from operator import attrgetter
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, core_schema

from pipeweave import ids
from pipeweave.orchestrator.domain.json_shapes import iso
from pipeweave.orchestrator.store.keyset import Document

Write = Callable[[Any], Any]


class AnswerModel(BaseModel):
    """Base of all documents: names in camelCase, every field always present."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, defer_build=True)

    @classmethod
    def of(cls, row: Any = None, /, **values: Any) -> Document:
        """The document of a row. Each field is the column of its name; times and ids are written as in JSON.

        Args:
            row: a row, or another object with such attributes; None: all fields are among the values.
            values: the fields that are no column of the row, or differ from it.
        """
        plan = _plan(cls, tuple(values))
        document: Document = plan.empty.copy()
        document.update(zip(plan.values, values.values(), strict=True))
        if plan.columns:
            document.update(zip(plan.columns, plan.read(row), strict=True))
        for key, write in plan.writes:
            if document[key] is not None:
                document[key] = write(document[key])
        return document


class Paged(AnswerModel):
    """One page of a list."""

    next_cursor: str | None = Field(
        description="Send it as `cursor` to get the next page; null on the last page."
    )


def type_id_pattern(prefix: str) -> str:
    """The pattern of a TypeID: the prefix and 26 characters of Crockford's base 32."""
    return f"^{prefix}_[0-7][0-9abcdefghjkmnpqrstvwxyz]{{25}}$"


@dataclass(frozen=True, slots=True)
class TypeId:
    """Marks a field as an id: a UUID in the row, a TypeID with this prefix in JSON."""

    prefix: str

    def __get_pydantic_core_schema__(self, source: Any, build: Any) -> CoreSchema:
        return core_schema.str_schema(pattern=type_id_pattern(self.prefix))


RunId = Annotated[str, TypeId(ids.RUN)]
TaskRunId = Annotated[str, TypeId(ids.TASK_RUN)]
CodeHash = Annotated[str, Field(pattern="^[0-9a-f]{16,64}$")]
Percent = Annotated[float, Field(ge=0, le=100)]
FailureMode = Literal["fail-fast", "continue", "partial-merge"]


@dataclass(frozen=True, slots=True)
class _Plan:
    """How documents of one class are made.

    Attributes:
        empty: all keys in their order.
        values: the keys of the values.
        columns: the keys of the columns.
        read: reads the columns of a row.
        writes: the keys whose values JSON has otherwise than the row.
    """

    empty: Document
    values: tuple[str, ...]
    columns: tuple[str, ...]
    read: Callable[[Any], tuple[Any, ...]]
    writes: tuple[tuple[str, Write], ...]


@cache
def _plan(answer: type[AnswerModel], values: tuple[str, ...]) -> _Plan:
    keys = {name: field.alias or to_camel(name) for name, field in answer.model_fields.items()}
    columns = tuple(name for name in keys if name not in values)
    hints = get_type_hints(answer, include_extras=True)
    writes = {key: _write(hints[name]) for name, key in keys.items()}
    return _Plan(
        empty=dict.fromkeys(keys.values()),
        values=tuple(keys[name] for name in values),
        columns=tuple(keys[name] for name in columns),
        read=attrgetter(*columns) if len(columns) > 1 else _each(columns),
        writes=tuple((key, write) for key, write in writes.items() if write is not None),
    )


def _each(columns: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """Like `attrgetter`, which needs two names to give a tuple."""
    return lambda row: tuple(getattr(row, each) for each in columns)


def _write(hint: Any) -> Write | None:
    """How JSON has a value of this kind; None: as the row has it.

    Of an id that may be one of several kinds, only whoever makes the document knows which.
    """
    if hint is AwareDatetime:
        return iso
    if get_origin(hint) in (Union, UnionType):
        ways = {way for each in get_args(hint) if (way := _write(each)) is not None}
        return ways.pop() if len(ways) == 1 else None
    if get_origin(hint) is list and (write := _write(*get_args(hint))) is not None:
        return lambda values: [write(each) for each in values]
    prefixes = (each.prefix for each in getattr(hint, "__metadata__", ()) if isinstance(each, TypeId))
    return next((_shown_as(each) for each in prefixes), None)


@cache
def _shown_as(prefix: str) -> Write:
    """Writes ids as `ids.show` does; one for each prefix, as kinds are compared by it."""
    return partial(ids.show, prefix)
