"""Filling a task's parameters and reading its result."""

from __future__ import annotations

import datetime as dt
import enum
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field
from support.nesting import nested

from pipeweave import Context, TaskResult
from pipeweave.authoring import calling
from pipeweave.authoring.calling import bind, call_plan, outcome_of
from pipeweave.errors import InvalidParams, InvalidResult, InvalidTask
from pipeweave.size_limits import MAX_JSON_DEPTH


class Order(BaseModel):
    id: int
    rows: list[str] = []


@dataclass
class Point:
    x: int
    y: int = 0


def mistakes(fn: Callable[..., Any], ctx: Context) -> dict[str, str]:
    with pytest.raises(InvalidParams) as refused:
        bind(fn, ctx)
    return {each.field: each.message for each in refused.value.errors}


def test_parameters_come_from_the_runs_input_by_name_and_the_rest_is_overlooked() -> None:
    def fn(name: str, n: int = 5) -> None: ...

    assert bind(fn, Context(input={"name": "Ada", "other": 1})) == {"name": "Ada"}


def test_params_replace_the_input() -> None:
    def fn(a: int, b: int = 0) -> None: ...

    assert bind(fn, Context(input={"a": 1, "b": 2}, params={"a": 3})) == {"a": 3}
    assert "the step's params do not hold it" in mistakes(fn, Context(input={"a": 1}, params={}))["a"]


def test_the_context_goes_where_it_is_annotated() -> None:
    def fn(a: int, job: Context) -> None: ...

    def optional(ctx: Context | None = None) -> None: ...

    ctx = Context(input={"a": 1, "job": 2})
    assert bind(fn, ctx) == {"a": 1, "job": ctx}
    assert bind(optional, ctx) == {"ctx": ctx}


def test_a_parameter_named_input_gets_the_whole_input_unless_it_is_supplied() -> None:
    def fn(input: dict[str, Any]) -> None: ...

    assert bind(fn, Context(input={"a": 1})) == {"input": {"a": 1}}
    assert bind(fn, Context(input={"input": {"b": 2}})) == {"input": {"b": 2}}
    assert bind(fn, Context(input={"a": 1}, params={"input": {}})) == {"input": {}}


def test_an_input_that_is_no_object_fills_only_a_parameter_named_input() -> None:
    def fn(input: list[int]) -> None: ...

    def other(a: int) -> None: ...

    assert bind(fn, Context(input=[1, 2])) == {"input": [1, 2]}
    assert "is required" in mistakes(other, Context(input=[1]))["a"]


def test_a_mapped_item_fills_the_first_parameter_that_params_do_not_supply() -> None:
    def fn(ctx: Context, path: str, deep: bool = False) -> None: ...

    ctx = Context(input={"path": "of the run", "deep": True}, item="x", map_index=0)
    assert bind(fn, ctx) == {"ctx": ctx, "path": "x", "deep": True}
    second = Context(params={"path": "fixed"}, item=True, map_index=1)
    assert bind(fn, second) == {"ctx": second, "path": "fixed", "deep": True}


def test_a_mapped_item_goes_to_the_named_parameter() -> None:
    def fn(a: int, b: int) -> None: ...

    assert bind(fn, Context(params={"a": 1}, item=2, map_index=0, map_name="b")) == {"a": 1, "b": 2}
    assert (
        "not a parameter"
        in mistakes(fn, Context(params={"a": 1, "b": 2}, item=2, map_index=0, map_name="c"))["c"]
    )


def test_an_item_of_null_is_an_item() -> None:
    def fn(a: int | None) -> None: ...

    assert bind(fn, Context(item=None, map_index=0)) == {"a": None}


def test_values_become_what_the_hints_say() -> None:
    def fn(at: dt.date, order: Order, point: Point, tags: tuple[str, ...], anything: Any, bare) -> None: ...  # type: ignore[no-untyped-def]

    given = {
        "at": "2024-02-29",
        "order": {"id": 1},
        "point": {"x": 1},
        "tags": ["a"],
        "anything": {"x": 1},
        "bare": 2,
    }
    assert bind(fn, Context(input=given)) == {
        "at": dt.date(2024, 2, 29),
        "order": Order(id=1),
        "point": Point(1),
        "tags": ("a",),
        "anything": {"x": 1},
        "bare": 2,
    }


def test_every_wrong_field_is_told_with_its_path() -> None:
    def fn(n: Annotated[int, Field(ge=1)], order: Order, missing: str, rows: list[int]) -> None: ...

    found = mistakes(
        fn, Context(task_id="t", input={"n": 0, "order": {"id": "x", "rows": [1]}, "rows": [1, "b"]})
    )
    assert set(found) == {"n", "order.id", "order.rows[0]", "missing", "rows[1]"}
    assert "not 'x'" in found["order.id"]


def test_unknown_params_are_refused_with_the_nearest() -> None:
    def fn(path: str, ctx: Context) -> None: ...

    def none() -> None: ...

    def only_context(ctx: Context) -> None: ...

    def keywords(**rest: int) -> None: ...

    assert "did you mean 'path'" in mistakes(fn, Context(params={"path": "a", "pth": "b"}))["pth"]
    assert "not a parameter" in mistakes(fn, Context(params={"path": "a", "ctx": 1}))["ctx"]
    assert "not a parameter" in mistakes(none, Context(params={"a": 1}))["a"]
    assert "not a parameter" in mistakes(only_context, Context(params={"a": 1}))["a"]
    assert bind(keywords, Context(params={"a": 1, "b": 2})) == {"a": 1, "b": 2}
    assert bind(none, Context(params={}, input={"a": 1})) == {}


def test_the_call_plan_of_a_function_is_cached() -> None:
    def fn(a: int) -> None: ...

    assert call_plan(fn) is call_plan(fn)


def test_hints_that_cannot_be_read_or_checked_are_told() -> None:
    def unknown(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    class Odd: ...

    def unchecked(a: Odd) -> None: ...

    with pytest.raises(InvalidTask, match="Nowhere"):
        bind(unknown, Context(input={"a": 1}))
    with pytest.raises(InvalidTask, match=r"cannot be (read|checked)"):
        bind(unchecked, Context(input={"a": 1}))


def test_a_plain_result_is_the_output() -> None:
    outcome = outcome_of({"output": 1, "rows": (1, 2)})
    assert outcome.output == {"output": 1, "rows": (1, 2)}
    assert outcome.run_next is None
    assert outcome.encoded == b'{"output":1,"rows":[1,2]}'
    assert outcome_of(None).encoded == b"null"
    assert outcome_of({"a": None, "b": "\\u0000"}).output["a"] is None


class Colour(enum.Enum):
    RED = "red"
    NONE = None
    NAN = float("nan")


@pytest.mark.parametrize("beside", [{}, {"x": None}, {"x": "null"}, {"x": "\\u0000"}])
def test_uuids_and_members_of_enums_are_results_whatever_lies_beside_them(beside: dict[str, Any]) -> None:
    told = {"id": uuid.UUID(int=1), "colours": [Colour.RED], **beside}
    written = {"id": "00000000-0000-0000-0000-000000000001", "colours": ["red"], **beside}
    assert json.loads(outcome_of(told).encoded) == written


def test_an_output_beyond_the_limit_is_refused_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calling, "MAX_OUTPUT_BYTES", 1_000)
    assert len(outcome_of("x" * 998).encoded) == 1_000
    for output in ("x" * 999, ["ab"] * 250, {"a": "x" * 1_001}, ["ä" * 499]):
        with pytest.raises(InvalidResult, match="more than the 1000 bytes") as refused:
            outcome_of(output)
        assert (refused.value.errors[0].code, bool(refused.value.hint)) == ("too_large", True)


@pytest.mark.parametrize("shape", [lambda text: text, lambda text: [text], lambda text: {"a": text}])
def test_a_text_beyond_the_limit_is_refused_before_it_is_written(
    shape: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calling, "MAX_OUTPUT_BYTES", 1_000)
    monkeypatch.setattr(calling, "write_json", None)  # it dies of a text of gigabytes
    with pytest.raises(InvalidResult):
        outcome_of(shape("x" * 1_001))


def test_a_task_result_carries_the_choice() -> None:
    assert outcome_of(TaskResult(1, run_next=["a"])).run_next == ("a",)
    assert outcome_of(TaskResult(1, run_next=[])).run_next == ()
    assert outcome_of(TaskResult()).run_next is None


def test_a_result_is_converted_where_json_has_no_such_type() -> None:
    told = {"at": dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "points": [Point(1)], "id": uuid.UUID(int=1)}
    outcome = outcome_of(TaskResult(told))
    assert outcome.output == json.loads(outcome.encoded)
    assert outcome.output["points"] == [{"x": 1, "y": 0}]
    assert outcome.output["at"] == "2024-01-01T00:00:00Z"


def test_a_refused_result_is_refused_with_what_to_return_instead() -> None:
    with pytest.raises(InvalidResult, match=r"output.rows\[0\] is bytes, .* \(and 1 more\)") as refused:
        outcome_of({"rows": [b"x"], "make": len})
    assert "base64" in str(refused.value.hint)


def test_an_error_in_the_code_of_a_result_is_told() -> None:
    class Broken(dict[str, int]):
        def items(self) -> Any:
            raise RuntimeError("no items")

    with pytest.raises(InvalidResult, match="RuntimeError: no items"):
        outcome_of(Broken())


@pytest.mark.parametrize(
    ("result", "field"),
    [
        ({"a": [{b"1"}]}, "output.a[0][0]"),
        ({"a": {1: 2}}, "output.a"),
        (object(), "output"),
        ({"at": dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "p": [Point(b"1")]}, "output.p[0].x"),
        ([1.0, float("nan")], "output[1]"),
        (float("inf"), "output"),
        ([Colour.RED, Colour.NAN], "output[1]"),
        (2**70, "output"),
        ("\ud800", "output"),
        ({"x": "nul \x00"}, "output.x"),
        (b"bytes", "output"),
        (TaskResult({1: 2}), "output"),
        (TaskResult(1, run_next="a"), "run_next"),
        (TaskResult(1, run_next=[1]), "run_next"),  # type: ignore[list-item]
        (TaskResult(1, run_next=5), "run_next"),  # type: ignore[arg-type]
    ],
)
def test_a_result_that_is_not_json_is_refused_with_its_place(result: Any, field: str) -> None:
    with pytest.raises(InvalidResult) as refused:
        outcome_of(result)
    assert refused.value.errors[0].field == field


def test_a_result_that_holds_itself_is_refused() -> None:
    looped: list[Any] = []
    looped.append(looped)
    with pytest.raises(InvalidResult):
        outcome_of(looped)


def test_an_output_may_be_as_deep_as_answers_and_archives_can_hold_it() -> None:
    assert outcome_of(nested(MAX_JSON_DEPTH)).encoded
    for levels in (MAX_JSON_DEPTH + 1, 254, 5_000):
        with pytest.raises(InvalidResult, match="is nested deeper than 200 levels") as refused:
            outcome_of(nested(levels))
        assert refused.value.errors[0].code == "too_deep"


def test_a_context_without_its_hint_is_answered_with_the_hint() -> None:
    def load(ctx: Any) -> None: ...

    assert "annotate it: `ctx: Context`" in mistakes(load, Context(input={}))["ctx"]
