"""What a task's key function is given, and what it may give."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave.authoring.context import Context
from pipeweave.authoring.idempotency_keys import INPUTS, is_key, key_of, takes_version
from pipeweave.errors import AttemptTimedOut, InvalidIdempotencyKey
from pipeweave.size_limits import MAX_KEY_CHARS


def call(path: str, deep: bool = False) -> None:
    """A task's function."""


def key(make: Any, **context: Any) -> str:
    return key_of(make, call, Context(task_id="t", **context))


def as_json(input: Any) -> str:
    return json.dumps(input, sort_keys=True)


def test_a_key_function_gets_the_input_of_the_call() -> None:
    assert key(as_json, input={"path": "a"}) == '{"path": "a"}'


@pytest.mark.parametrize(
    ("params", "name", "expected"),
    [
        (None, None, {"folder": ".", "path": 7}),
        (None, "deep", {"folder": ".", "deep": 7}),
        ({"path": "p"}, None, {"path": "p", "deep": 7}),
        ({"path": "p", "deep": True}, None, {"path": "p", "deep": True, "item": 7}),
        ({}, "path", {"path": 7}),
    ],
)
def test_in_a_map_the_item_is_part_of_it(params: Any, name: str | None, expected: Any) -> None:
    context = Context(
        input={"folder": "."} if params is None else params, params=params, item=7, map_index=0, map_name=name
    )
    assert json.loads(key_of(as_json, call, context)) == expected


def test_in_a_map_an_input_that_is_no_object_leaves_the_item_alone() -> None:
    assert key(as_json, input=[1, 2], item=1, map_index=0) == '{"path": 1}'


def only_input(input: Any) -> str:
    return "k"


def with_version(input: Any, version: int) -> str:
    return f"k{version}"


def with_default(input: Any, code_version: int = 1) -> str:
    return f"k{code_version}"


def with_separator(input: Any, separator: str = "-") -> str:
    return f"k{separator}"


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (only_input, "k"),
        (with_version, "k3"),
        (with_default, "k3"),
        (with_separator, "k-"),
        (functools.partial(with_version, version=9), "k9"),
        (str, "x"),
        (lambda *given: f"{len(given)}", "1"),
    ],
)
def test_the_code_version_is_given_to_those_that_take_it(make: Any, expected: str) -> None:
    assert key(make, input="x", code_version=3) == expected
    assert takes_version(make) is (expected == "k3")


@pytest.mark.parametrize(
    "made", [None, 1, b"k", "", "k" * (MAX_KEY_CHARS + 1), "a\nb", "\0", "\x7f", "\ud800"]
)
def test_an_invalid_key_fails_the_attempt(made: Any) -> None:
    with pytest.raises(InvalidIdempotencyKey):
        key(lambda input: made)


@pytest.mark.parametrize("made", ["k", " ", "ä é 漢", "k" * MAX_KEY_CHARS, "order:1/2?x=%20"])
def test_a_valid_key_is_used_unchanged(made: str) -> None:
    assert key(lambda input: made) == made


def test_a_function_that_raises_fails_the_attempt_and_says_what_it_raised() -> None:
    with pytest.raises(InvalidIdempotencyKey, match="KeyError: 'order'"):
        key(lambda input: input["order"], input={})


def test_its_time_limit_is_that_of_the_attempt() -> None:
    def slow(input: Any) -> str:
        raise AttemptTimedOut

    with pytest.raises(AttemptTimedOut):
        key(slow)


@given(st.text(max_size=20))
def test_a_key_is_text_that_can_be_stored_on_one_line(text: str) -> None:
    if is_key(text):
        assert text.encode()
        assert len(text.splitlines()) == 1
        assert "\0" not in text


def of_inputs(fn: Any, **context: Any) -> str:
    return key_of(INPUTS, fn, Context(task_id="t", **context))


def with_context(ctx: Context, path: str) -> None:
    """A task's function that can read what earlier steps returned."""


def with_whole_input(input: Any) -> None:
    """A task's function that gets all of the run's input."""


def test_equal_inputs_of_equal_code_have_one_key_whatever_the_order_of_their_members() -> None:
    one = of_inputs(call, input={"path": "a", "deep": True}, code_hash="c1")
    assert is_key(one)
    assert of_inputs(call, input={"deep": True, "path": "a"}, code_hash="c1") == one


@pytest.mark.parametrize(
    "other",
    [
        {"input": {"path": "b"}, "code_hash": "c1"},
        {"input": {"path": "a", "deep": False}, "code_hash": "c1"},
        {"input": {"path": "a"}, "code_hash": "c2"},
        {"input": {"folder": "."}, "code_hash": "c1", "item": "a", "map_index": 0, "map_name": "deep"},
    ],
)
def test_another_input_or_other_code_is_another_key(other: dict[str, Any]) -> None:
    assert of_inputs(call, **other) != of_inputs(call, input={"path": "a"}, code_hash="c1")


def test_what_a_function_does_not_read_is_not_in_its_key() -> None:
    context = {"code_hash": "c", "upstream": {"first": 1}}
    one = of_inputs(call, input={"path": "a", "order": 1}, **context)
    assert of_inputs(call, input={"path": "a", "order": 2}, **(context | {"upstream": {}})) == one


def test_an_item_of_a_map_has_the_key_of_a_call_with_the_same_values() -> None:
    item = of_inputs(call, input={"folder": "."}, item="a", map_index=3, code_hash="c")
    assert item == of_inputs(call, input={"path": "a"}, code_hash="c")


@pytest.mark.parametrize("fn", [with_context, with_whole_input])
def test_who_takes_the_whole_input_has_all_of_it_in_the_key(fn: Any) -> None:
    assert of_inputs(fn, input={"path": "a", "order": 1}) != of_inputs(fn, input={"path": "a", "order": 2})


def test_who_takes_the_context_has_the_outputs_before_it_in_the_key() -> None:
    one = of_inputs(with_context, input={"path": "a"}, upstream={"first": 1})
    assert of_inputs(with_context, input={"path": "a"}, upstream={"first": 2}) != one
