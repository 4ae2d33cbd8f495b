"""The input schema that a pipeline's signature gives."""

from __future__ import annotations

import collections.abc
import datetime as dt
import enum
import uuid
from dataclasses import InitVar, dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NewType, NotRequired

import orjson
import pytest
from annotated_types import Gt
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, field_validator
from typing_extensions import TypedDict

from pipeweave import Context, pipeline, task
from pipeweave.authoring.hint_fields import field_of
from pipeweave.authoring.input_schema import task_parameters
from pipeweave.json_conversion import to_json_value
from pipeweave.schema import run_input_errors, validate_schema


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Lenient(enum.Enum):
    RED = "red"

    @classmethod
    def _missing_(cls, value: object) -> Lenient:
        return cls.RED


@dataclass
class Line:
    sku: str
    count: int = 1
    tags: list[str] = field(default_factory=list)
    parent: Line | None = None


@dataclass
class WithInit:
    raw: InitVar[int]
    value: int = 0


class Row(TypedDict):
    sku: str
    at: NotRequired[dt.datetime]


class Order(BaseModel):
    id: uuid.UUID
    lines: list[Line]
    total: Annotated[float, Gt(0)] = 1.0
    note: str | None = None


class Aliased(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    total: int = Field(alias="sum")


class Converting(BaseModel):
    total: int

    @field_validator("total", mode="before")
    @classmethod
    def _read(cls, value: Any) -> int:
        return int(value or 0)


Sku = NewType("Sku", str)


@pytest.mark.parametrize(
    ("hint", "shape"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (dt.date, {"type": "date"}),
        (dt.datetime, {"type": "datetime"}),
        (Path, {"type": "string"}),
        (Sku, {"type": "string"}),
        (dict, {"type": "object"}),
        (dict[str, int], {"type": "object"}),
        (list, {"type": "array"}),
        (list[Any], {"type": "array"}),
        (tuple[int, str], {"type": "array"}),
        (list[int], {"type": "array", "items": {"name": "item", "label": "Item", "type": "integer"}}),
        (collections.abc.Sequence[Any], {"type": "array"}),
        (int | None, {"type": "integer", "nullable": True}),
        (Annotated[int, Gt(3), "people"], {"type": "integer"}),
        (Annotated[int, Field(gt=3)], {"type": "integer"}),
        (Literal["a"], {"type": "select", "options": [{"label": "a", "value": "a"}]}),
        (Level, {"type": "select", "options": [{"label": "1", "value": 1}, {"label": "2", "value": 2}]}),
        *((each, {"type": "json"}) for each in (Any, object, Decimal, int | str, Lenient, WithInit)),
        *((each, {"type": "json"}) for each in (Aliased, Converting, dt.timedelta)),
        (Annotated[int, BeforeValidator(int)], {"type": "json"}),
    ],
)  # fmt: skip
def test_a_hint_gives_the_type_that_is_exact_or_none(hint: Any, shape: dict[str, Any]) -> None:
    found = field_of("given_name", hint, is_required=True)
    assert found == {"name": "given_name", "label": "Given name", "required": True, **shape}
    assert validate_schema({"fields": [found]}) == []


def test_models_dataclasses_and_typed_dicts_are_objects_with_their_fields() -> None:
    order = field_of("order", Order, is_required=True)
    assert [(each["name"], each["type"], each["required"]) for each in order["properties"]] == [
        ("id", "string", True),
        ("lines", "array", True),
        ("total", "number", False),
        ("note", "string", False),
    ]
    line = order["properties"][1]["items"]
    assert [each["type"] for each in line["properties"]] == ["string", "integer", "array", "json"]
    row = field_of("row", Row, is_required=True)
    assert [(each["type"], each["required"]) for each in row["properties"]] == [
        ("string", True),
        ("datetime", False),
    ]
    assert validate_schema({"fields": [order, row]}) == []


HINTS = [
    *(str, int, float, bool, dt.date, dt.datetime, uuid.UUID, Path, Decimal, Colour, Level, Line, Order, Row),
    *(list[int], dict[str, float], set[str], tuple[int, ...], int | None, list[Line | None], Literal["a", 2]),
    *(Annotated[float, Gt(0)], Converting, Aliased, dt.timedelta, dt.time, int | str | None),
]


@given(st.data())
def test_what_a_task_accepts_from_json_of_the_exact_types_is_never_refused(data: st.DataObject) -> None:
    hint = data.draw(st.sampled_from(HINTS))
    value = data.draw(values_of(hint))
    converted, faults = to_json_value(value)
    sent = None if faults else orjson.loads(orjson.dumps(converted))
    try:
        TypeAdapter(hint).validate_python(sent)
    except ValueError:
        return
    schema = {"fields": [field_of("x", hint, is_required=True)], "strict": True}
    assert run_input_errors(schema, {"x": sent}) == []


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Values that the hint accepts, as far as hypothesis can make them, with their JSON forms and others."""
    text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)
    lines = st.builds(Line, text, st.integers(0, 9), st.lists(text), st.none() | st.builds(Line, text))
    numbers = st.integers(-9, 9) | st.floats(-9, 9)
    other = {
        Order: st.builds(Order, id=st.uuids(), lines=st.lists(lines), note=st.none() | text),
        Line: lines,
        Path: text.map(Path),
        Row: st.fixed_dictionaries({"sku": text}, optional={"at": st.datetimes(timezones=st.timezones())}),
        Converting: st.fixed_dictionaries({"total": st.none() | st.integers(0, 9) | st.just("5")}),
        Aliased: st.sampled_from([{"sum": 1}, {"total": 1}]),
        dict[str, float]: st.dictionaries(text, numbers),
        list[Line | None]: st.lists(st.none() | lines),
        float: numbers,
    }  # fmt: skip
    found = next((made for each, made in other.items() if each is hint or each == hint), None)
    return st.from_type(hint) if found is None else found


@task
def fetch(day: str, limit: int = 5) -> list[int]: ...


@task
def check(item: int, deep: bool) -> int: ...


@task
def report(rows: Any, kind: str) -> None: ...


@task
def reads_context(ctx: Context) -> Any:
    return ctx.input


@task
def logs(ctx: Context) -> None:
    ctx.log.info("here")


@task
def reads_input(input: dict[str, Any]) -> None: ...


@task(idempotency_key=lambda input: input["order"])
def keyed(order: str) -> None: ...


def schema_of(draw: Any) -> Any:
    return pipeline(id="p")(draw).spec.input_schema


def test_the_parameters_of_a_pipeline_are_its_inputs() -> None:
    def daily(day: dt.date, limit: int = 5, kind: Colour | None = None, free=1):  # type: ignore[no-untyped-def]
        report(fetch(day, limit), kind)

    schema = schema_of(daily)
    assert schema["strict"] is True
    assert [(each["name"], each["type"], each["required"]) for each in schema["fields"]] == [
        ("day", "date", True),
        ("limit", "integer", False),
        ("kind", "select", False),
        ("free", "json", False),
    ]
    assert run_input_errors(schema, {"day": "2024-05-01", "kind": None}) == []


def test_a_pipeline_without_inputs_has_no_schema() -> None:
    assert schema_of(lambda: fetch("today")) is None


def test_the_parameters_of_tasks_that_the_input_fills_are_inputs_too() -> None:
    def filled(day: int):  # type: ignore[no-untyped-def]
        rows = fetch()  # type: ignore[call-arg]
        check.map(rows)
        report.options(needs=[rows])()  # type: ignore[call-arg]

    schema = schema_of(filled)
    assert schema["strict"] is True
    assert [(each["name"], each["type"], each["required"]) for each in schema["fields"]] == [
        ("day", "integer", True),
        ("limit", "integer", False),
        ("deep", "json", False),
        ("rows", "json", False),
        ("kind", "json", False),
    ]


@pytest.mark.parametrize("reader", [reads_context, reads_input])
def test_names_are_open_where_a_task_may_read_any_of_them(reader: Any) -> None:
    def closed(day: str):  # type: ignore[no-untyped-def]
        fetch(day)
        logs()
        keyed()

    def opened(day: str):  # type: ignore[no-untyped-def]
        fetch(day)
        reader()

    assert schema_of(opened)["strict"] is False
    assert schema_of(closed)["strict"] is True


def test_a_context_beside_arguments_does_not_open_the_names() -> None:
    @task
    def both(ctx: Context, day: str) -> None: ...

    assert schema_of(lambda day: both(day))["strict"] is True


def test_mistakes_in_an_input_are_told_all_at_once() -> None:
    def daily(day: str, limit: int = 5):  # type: ignore[no-untyped-def]
        fetch(day, limit)

    schema = schema_of(daily)
    assert [(each.field, each.message) for each in run_input_errors(schema, {"dya": "x", "limit": "5"})] == [
        ("dya", "is not an input of this pipeline; did you mean 'day'?"),
        ("day", "is required"),
        ("limit", 'Expected a number, got "5"'),
    ]
    assert run_input_errors(schema, None)[0].field == "day"
    for wrong in ([1], 5, "x"):
        (error,) = run_input_errors(schema, wrong)
        assert (
            error.field,
            "must be an object with the pipeline's inputs (day, limit)" in error.message,
        ) == ("", True)


def test_the_parameters_of_a_task_are_described() -> None:
    found = task_parameters(check.fn)
    assert [(each["name"], each["type"], each["required"]) for each in found["fields"]] == [
        ("item", "integer", True),
        ("deep", "boolean", True),
    ]
    assert found["strict"] is True
    assert task_parameters(lambda **kwargs: None) == {"fields": [], "strict": False}
