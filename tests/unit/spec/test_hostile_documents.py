"""Documents of people who mean no good: they get mistakes with fields, in time, and never a trace."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeweave.errors import InvalidSpec
from pipeweave.spec import parse_spec

KEYS = (
    *("id", "task", "adapter", "action", "needs", "params", "map", "parallel", "condition", "join", "retry"),
    *("timeout", "timeoutMs", "continueOnError", "continue_on_error", "onExhausted", "choice", "transform"),
    *("gather", "on_exhausted"),
    *("sleep", "sleepMs", "sleepUntil", "signal", "approval", "steps", "next", "failure", "failIf", "code"),
    *("message", "output", "title", "names", "default", "atLeast", "attempts", "retryOn", "form", "fields"),
)
TEXTS = (
    "a",
    "b",
    "${steps.a}",
    "input.x > 1",
    "${",
    "all-done",
    "settle",
    "1h",
    "pipeweave:wait",
    "",
    "\x00",
)

scalars = st.none() | st.booleans() | st.integers(-5, 10**20) | st.floats() | st.sampled_from(TEXTS)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=30,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(KEYS), values, max_size=5), max_size=5), values)
@example([{"choice": [{"condition": "input.a", "steps": [{"choice": [{"steps": [None]}]}]}]}], None)
@example([{"task": "a", "needs": ["a"]}, {"gather": ["a"], "id": "a"}], {"a": {"b": "${steps.a}"}})
@example([{"id": "c", "choice": [{"condition": "input.a", "next": ["c"]}]}], None)
def test_a_document_of_anything_is_read_or_refused_with_fields(steps: list[Any], variables: Any) -> None:
    try:
        spec = parse_spec({"id": "p", "steps": steps, "variables": variables})
    except InvalidSpec as refused:
        assert refused.errors
        assert all(isinstance(each.field, str) and each.message for each in refused.errors)
    else:
        assert parse_spec(spec.to_json()) == spec


def test_choices_nested_without_end_are_refused() -> None:
    steps: list[Any] = [{"task": "t"}]
    for _ in range(500):
        steps = [{"choice": [{"condition": "input.a", "steps": steps}]}]
    with pytest.raises(InvalidSpec, match="nested deeper"):
        parse_spec({"id": "p", "steps": steps})


def test_very_many_choices_that_refer_across_each_other_are_read() -> None:
    branch = [{"task": "b", "params": {"x": "${steps.first}", "y": "${steps.last}"}}]
    choices = [{"choice": [{"condition": "input.a", "steps": branch}]} for _ in range(2_000)]
    wide = [{"parallel": [{"task": "w"}] * 300}, {"parallel": [{"task": "w"}] * 300}]
    steps = [{"id": "first", "task": "t"}, *choices, *wide, {"id": "last", "task": "t"}]
    with pytest.raises(InvalidSpec) as refused:
        parse_spec({"id": "p", "steps": steps})
    assert len(refused.value.errors) == 100
    assert all("comes after choice" in each.message for each in refused.value.errors)


def test_two_thousand_choices_are_read() -> None:
    choices = [
        {"id": f"c{each}", "choice": [{"condition": "input.a", "steps": [{"id": f"s{each}", "task": "t"}]}]}
        for each in range(2_000)
    ]
    spec = parse_spec({"id": "p", "steps": choices})
    assert spec.steps[-1].needs == ("c1999",)
