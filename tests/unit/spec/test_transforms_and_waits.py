"""Transforms and waits of a document: how they are read and written, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave.errors import InvalidSpec
from pipeweave.spec import NO_DEFAULT, Approval, FailIf, SignalWait, Sleep, Transform, parse_spec
from pipeweave.spec.wait_steps import DEFAULT_WAIT_MS


def decided(**keys: Any) -> Any:
    """What the engine does for a step with these keys."""
    spec = parse_spec({"id": "p", "steps": [keys]})
    again = parse_spec(spec.to_json())
    assert again == spec
    return spec.steps[0].decides


def mistakes(**keys: Any) -> dict[str, str]:
    with pytest.raises(InvalidSpec) as refused:
        parse_spec({"id": "p", "steps": [keys]})
    return {each.field.removeprefix("steps[0]."): each.message for each in refused.value.errors}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (5, Transform(5)),
        ({"a": "${input.a}"}, Transform({"a": "${input.a}"})),
        ({"output": 5}, Transform(5)),
        ({"output": 5, "more": 1}, Transform({"output": 5, "more": 1})),
        (
            {"failIf": [{"condition": "input.a", "code": "NO_A", "message": "no ${input.b}"}]},
            Transform(None, (FailIf("input.a", "NO_A", "no ${input.b}"),)),
        ),
        ({"output": {"output": 5}}, Transform({"output": 5})),
    ],
)
def test_a_transform_is_a_value_or_the_long_form(written: Any, read: Transform) -> None:
    assert decided(transform=written) == read


@pytest.mark.parametrize(
    ("written", "key", "read"),
    [
        (90, "sleep", Sleep(ms=90_000)),
        ("2h", "sleep", Sleep(ms=7_200_000)),
        ("${input.wait}", "sleep", Sleep(seconds="${input.wait}")),
        (5, "sleepMs", Sleep(ms=5)),
        ("2030-01-31T08:00:00Z", "sleepUntil", Sleep(until="2030-01-31T08:00:00Z")),
        ("${input.at}", "sleepUntil", Sleep(until="${input.at}")),
    ],
)
def test_a_sleep_is_a_duration_a_time_or_an_expression(written: Any, key: str, read: Sleep) -> None:
    assert decided(**{key: written}) == read


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("paid", SignalWait(("paid",))),
        (["paid", "lost"], SignalWait(("paid", "lost"))),
        ({"name": "paid", "timeout": "2d"}, SignalWait(("paid",), 172_800_000)),
        ({"names": ["paid"], "timeoutMs": 5, "default": None}, SignalWait(("paid",), 5, None)),
        ("paid-${input.id}", SignalWait(("paid-${input.id}",))),
    ],
)
def test_a_signal_is_a_name_a_list_or_an_object(written: Any, read: SignalWait) -> None:
    assert decided(signal=written) == read


def test_an_approval_has_its_defaults() -> None:
    assert decided(approval={"title": "Ship?"}) == Approval("Ship?", timeout_ms=DEFAULT_WAIT_MS)
    assert decided(approval={"title": "Ship?"}).default is NO_DEFAULT


def test_an_approval_is_read_whole() -> None:
    form = {"fields": [{"name": "why", "label": "Why", "type": "string"}]}
    written = {
        "title": "Ship ${input.id}?",
        "assignees": ["group:finance", "ann"],
        "needs": 2,
        "options": ["ship", "hold"],
        "form": form,
        "context": {"total": "${input.total}"},
        "timeout": "2d",
        "default": {"approved": False},
        "onReject": "fail",
        "fourEyes": True,
    }
    assert decided(approval=written) == Approval(
        "Ship ${input.id}?",
        ("group:finance", "ann"),
        2,
        ("ship", "hold"),
        form,
        {"total": "${input.total}"},
        172_800_000,
        {"approved": False},
        True,
        True,
    )


@pytest.mark.parametrize(
    ("keys", "field", "why"),
    [
        ({"transform": {"failIf": 5}}, "transform.failIf", "must be a list"),
        ({"transform": {"failIf": [5]}}, "transform.failIf[0]", "must be an object"),
        (
            {"transform": {"failIf": [{"code": "A", "message": "b"}]}},
            "transform.failIf[0].condition",
            "is required",
        ),
        (
            {"transform": {"failIf": [{"condition": "input.a", "code": "a b", "message": "b"}]}},
            "transform.failIf[0].code",
            "must be an error code",
        ),
        (
            {"transform": {"failIf": [{"condition": "input.a", "code": "A", "message": ""}]}},
            "transform.failIf[0].message",
            "must be a text",
        ),
        ({"transform": "${steps.nobody}"}, "transform", "is not a step"),
        ({"transform": "${item}"}, "transform", "without `map`"),
        ({"sleep": "never"}, "sleep", "30s, 5m, 2h"),
        ({"sleep": "367d"}, "sleep", "366 days"),
        ({"sleep": 0}, "sleep", "30s, 5m, 2h"),
        ({"sleepMs": 1.5}, "sleepMs", "whole number"),
        ({"sleepUntil": "2030-01-31T08:00:00"}, "sleepUntil", "with its zone"),
        ({"sleepUntil": 5}, "sleepUntil", "with its zone"),
        ({"signal": []}, "signal", "must name a signal"),
        ({"signal": [5]}, "signal[0]", "must be a text"),
        ({"signal": {"name": "a", "names": ["b"]}}, "signal.names", "together with `name`"),
        ({"signal": {}}, "signal.names", "is required"),
        ({"signal": {"name": "a", "default": "${steps.nobody}"}}, "signal.default", "is not a step"),
        ({"signal": {"name": "a", "timout": 5}}, "signal.timout", "did you mean 'timeout'"),
        ({"signal": {"name": "a", "timeout": "367d"}}, "signal.timeout", "366 days"),
        ({"signal": [f"s{each}" for each in range(21)]}, "signal", "at most 20"),
        ({"approval": "Ship?"}, "approval", "must be an object with a title"),
        ({"approval": {}}, "approval.title", "is required"),
        ({"approval": {"title": "a", "needs": 0}}, "approval.needs", "number of people"),
        ({"approval": {"title": "a", "votes": 2}}, "approval.votes", "did you mean 'needs'"),
        ({"approval": {"title": "a", "options": ["x"]}}, "approval.options", "two choices or more"),
        ({"approval": {"title": "a", "assignees": "ann"}}, "approval.assignees", "must be a list of texts"),
        ({"approval": {"title": "a", "form": {"fields": 5}}}, "approval.form.fields", "must be a list"),
        ({"approval": {"title": "a", "onReject": "stop"}}, "approval.onReject", "complete or fail"),
        ({"approval": {"title": "a", "fourEyes": 1}}, "approval.fourEyes", "must be true or false"),
        ({"approval": {"title": "a", "timeout": 5, "timeoutMs": 5}}, "approval.timeoutMs", "together"),
        (
            {"approval": {"title": "a", "default": {"aproved": False}}},
            "approval.default.aproved",
            "did you mean 'approved'",
        ),
        (
            {"approval": {"title": "a", "options": ["ship", "hold"], "default": {"choice": "shipp"}}},
            "approval.default.choice",
            "is 'shipp': use one of ship, hold",
        ),
        ({"sleep": 5, "params": {}}, "params", "it runs no task"),
        ({"sleep": 5, "map": [1]}, "map", "it runs no task"),
        ({"sleep": 5, "signal": "a"}, "signal", "a step does one thing"),
    ],
)
def test_a_wrong_step_is_refused_with_its_field(keys: Any, field: str, why: str) -> None:
    assert why in mistakes(**keys)[field]


@pytest.mark.parametrize(
    "approval",
    [
        {"default": None},
        {"default": "${input.answer}"},
        {"default": {"choice": "hold", "comment": "nobody came"}, "options": ["ship", "hold"]},
        {"default": {"choice": "${input.choice}"}, "options": ["ship", "hold"]},
        {"default": {"choice": "b"}, "options": ["a", "${input.other}"]},
    ],
)
def test_a_default_that_people_could_decide_or_that_is_not_known_yet_is_right(approval: Any) -> None:
    assert decided(approval={"title": "a", **approval}).default == approval["default"]


def test_a_default_of_a_stored_version_is_read_by_the_rules_of_its_time() -> None:
    approval = {"title": "a", "default": {"aproved": False}}
    spec = parse_spec({"id": "p", "steps": [{"approval": approval}]}, is_stored=True)
    assert isinstance(spec.steps[0].decides, Approval)


def test_a_default_in_a_body_is_checked_with_its_field() -> None:
    ask = {"approval": {"title": "a", "default": {"aproved": False}}}
    wrong = mistakes(loop={"maxIterations": 2, "steps": [ask]})
    assert list(wrong) == ["loop.steps[0].approval.default.aproved"]
