"""How Python values become JSON values."""

from __future__ import annotations

import datetime as dt
import enum
import json
import uuid
from collections import Counter, OrderedDict, defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter

from pipeweave.json_conversion import details_of, duration_text, to_json_value


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 2


class Place(NamedTuple):
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Line:
    sku: str
    price: Decimal
    tags: frozenset[str] = field(default=frozenset())


class Order(BaseModel):
    id: uuid.UUID
    lines: list[Line]
    at: dt.datetime


class Text(str):
    __slots__ = ()


UTC_NOON = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)
ID = uuid.UUID(int=1)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            Line("a", Decimal("1.50"), frozenset("cab")),
            {"sku": "a", "price": "1.50", "tags": ["a", "b", "c"]},
        ),
        (Order(id=ID, lines=[], at=UTC_NOON), {"id": str(ID), "lines": [], "at": "2024-05-01T12:00:00Z"}),
        ([UTC_NOON, dt.date(2024, 5, 1), dt.time(8, 30)], ["2024-05-01T12:00:00Z", "2024-05-01", "08:30:00"]),
        (dt.datetime(2024, 5, 1, 12), "2024-05-01T12:00:00"),
        (dt.timedelta(days=1, seconds=4.5), "P1DT4.5S"),
        ((Decimal("0.10"), ID, Path("/srv/data")), ["0.10", str(ID), "/srv/data"]),
        ({"colour": Colour.RED, "level": Level.HIGH}, {"colour": "red", "level": 2}),
        ({3, 1, 2}, [1, 2, 3]),
        ({"b", 1, None}, ["b", 1, None]),
        ({Place(2, 1), Place(1, 2)}, [[1, 2], [2, 1]]),
        (Place(1, 2), [1, 2]),
        (Counter("aab"), {"a": 2, "b": 1}),
        (defaultdict(list, {"a": [OrderedDict(x=1)]}), {"a": [{"x": 1}]}),
        ({ID: 1, dt.date(2024, 5, 1): 2, Colour.RED: 3}, {str(ID): 1, "2024-05-01": 2, "red": 3}),
        (Text("x"), "x"),
    ],
)
def test_each_type_of_the_table_is_converted(value: Any, expected: Any) -> None:
    converted, faults = to_json_value(value)
    assert (converted, faults) == (expected, [])
    assert type(converted) is type(expected)
    assert json.loads(json.dumps(converted)) == expected


@pytest.mark.parametrize(
    ("value", "where", "instead"),
    [
        ({"body": b"x"}, "out.body", "base64"),
        ([(each for each in "ab")], "out[0]", "use a list"),
        ({"make": len}, "out.make", "forget to call"),
        (Order, "out", "forget to call"),
        (object(), "out", "texts, numbers"),
        ({"error": ValueError("x")}, "out.error", "str(error)"),
        ({1: "x"}, "out", "str(key)"),
        ([1.0, float("nan")], "out[1]", None),
        (Decimal("1"), None, None),
    ],
)
def test_what_is_not_in_the_table_is_refused_with_what_to_return_instead(
    value: Any, where: str | None, instead: str | None
) -> None:
    _, faults = to_json_value(value, "out")
    assert (faults[0].field if faults else None) == where
    assert instead is None or instead in str(faults[0].expected)


def test_keys_that_become_the_same_text_are_refused() -> None:
    _, faults = to_json_value({str(ID): 1, ID: 2}, "out")
    assert "two keys" in faults[0].message


def test_messages_name_a_type_with_its_article() -> None:
    _, faults = to_json_value([object(), b"", {1: 2}], "out")
    assert [each.message.partition(",")[0] for each in faults] == [
        "is an object",
        "is bytes",
        "has the key 1",
    ]
    assert "which is an integer" in faults[2].message


def test_a_value_that_holds_itself_is_refused() -> None:
    looped: list[Any] = [Colour.RED]
    looped += [looped, looped]
    _, faults = to_json_value(looped)
    assert faults[0].code == "too_deep"


@given(st.timedeltas())
def test_a_duration_is_read_back_as_it_was(duration: dt.timedelta) -> None:
    assert TypeAdapter(dt.timedelta).validate_python(duration_text(duration)) == duration


@given(st.sets(st.one_of(st.integers(-9, 9), st.text(max_size=2), st.none(), st.uuids())))
def test_equal_sets_give_equal_json(values: set[Any]) -> None:
    again = set(reversed(list(values)))
    assert to_json_value(values) == to_json_value(again)


LEAVES = st.one_of(
    *(
        st.none(),
        st.booleans(),
        st.integers(-(2**53), 2**53),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    *(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), st.dates(), st.uuids()),
    *(st.decimals(allow_nan=False), st.datetimes(), st.times(), st.sampled_from([Colour.RED, Level.HIGH])),
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text("abc"), inner) | st.tuples(inner)
)


@given(VALUES)
def test_what_was_converted_is_json_and_stays_as_it_is(value: Any) -> None:
    converted, faults = to_json_value(value)
    assert faults == []
    assert json.loads(json.dumps(converted)) == converted
    assert to_json_value(converted) == (converted, [])


def test_details_are_converted_too_and_what_cannot_be_is_text() -> None:
    assert details_of({"at": UTC_NOON, "ids": {ID}}) == {"at": "2024-05-01T12:00:00Z", "ids": [str(ID)]}
    assert "object" in details_of([object()])
    assert isinstance(details_of("x" * 40_000), str)


class Faulty:
    @property
    def tolist(self) -> None:
        raise ValueError("no list")


def test_an_object_whose_own_code_raises_is_refused_with_its_place() -> None:
    _, faults = to_json_value({"rows": [1, Faulty()]}, "output")
    assert [(each.field, each.message) for each in faults] == [
        ("output.rows[1]", "cannot be read: ValueError: no list")
    ]


class Tags(BaseModel):
    names: set[str]
    inner: list[frozenset[str]]


def test_sets_in_models_are_sorted_so_that_equal_models_give_equal_json() -> None:
    names = {chr(at) for at in range(97, 123)}
    shown, _ = to_json_value(Tags(names=names, inner=[frozenset(names)]))
    assert shown == {"names": sorted(names), "inner": [sorted(names)]}
