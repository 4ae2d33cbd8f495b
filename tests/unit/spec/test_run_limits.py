"""How many runs are under way at once: in documents and in Python, and the keys of inputs."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave import pipeline, task
from pipeweave.errors import InvalidInput, InvalidSpec
from pipeweave.spec.document import parse_spec
from pipeweave.spec.run_limits import ALL_RUNS, RunConcurrency, RunRate, key_of


@task
def bill_one(customer: str) -> str:
    return customer


@pipeline(concurrency={"key": "${input.customer}", "on_limit": "skip"})
def bill_all(customer: str) -> None:
    bill_one(customer)


def parsed(concurrency: Any, **document: Any) -> RunConcurrency | None:
    spec = parse_spec({"id": "p", "steps": [{"task": "t"}], "concurrency": concurrency, **document})
    assert parse_spec(spec.to_json()) == spec
    return spec.concurrency


def test_documents_and_functions_say_it_alike() -> None:
    said = RunConcurrency("${input.customer}", 1, "skip")
    assert parsed({"key": "${input.customer}", "limit": 1, "onLimit": "skip"}) == said
    assert bill_all.spec.concurrency == said


def test_a_number_limits_all_runs_and_nothing_limits_none() -> None:
    assert parsed(3) == RunConcurrency(None, 3)
    assert parsed({}) == RunConcurrency(None, 1, "queue")
    assert parsed(None) is None
    assert "concurrency" not in parse_spec({"id": "p", "steps": [{"task": "t"}]}).to_json()


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (0, "concurrency.limit"),
        (True, "concurrency.limit"),
        ("many", "concurrency"),
        ({"limit": 10_001}, "concurrency.limit"),
        ({"onLimit": "wait"}, "concurrency.onLimit"),
        ({"onLimit": "skip", "on_limit": "skip"}, "concurrency.on_limit"),
        ({"max": 1}, "concurrency.max"),
        ({"key": " "}, "concurrency.key"),
        ({"key": ["${input.a}"]}, "concurrency.key"),
        ({"key": "${input.a"}, "concurrency.key"),
        ({"key": "${steps.t.id}"}, "concurrency.key"),
        ({"key": "${run.id}"}, "concurrency.key"),
        ({"key": "${secret.A}"}, "concurrency.key"),
        ({"key": "${variables.unknown}"}, "concurrency.key"),
    ],
)
def test_what_says_no_limit_is_refused_with_its_field(wrong: Any, field: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        parsed(wrong)
    assert [each.field for each in caught.value.errors] == [field]


def test_a_rate_is_written_alone_or_with_its_key() -> None:
    def rate(written: Any, **document: Any) -> RunRate | None:
        spec = parse_spec({"id": "p", "steps": [{"task": "t"}], "rateLimit": written, **document})
        assert parse_spec(spec.to_json()) == spec
        return spec.rate_limit

    assert rate("10/m") == RunRate("10/m")
    both = {"key": "${input.a}", "rate": "1/d"}
    assert rate(both, concurrency={"key": "${input.a}"}) == RunRate("1/d", "${input.a}")


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ("often", "rateLimit.rate"),
        (5, "rateLimit"),
        ({}, "rateLimit.rate"),
        ({"rate": "10001/s"}, "rateLimit.rate"),
        ({"rate": "1/s", "key": "${steps.t}"}, "rateLimit.key"),
        ({"rate": "1/s", "burst": 2}, "rateLimit.burst"),
    ],
)
def test_what_says_no_rate_is_refused_with_its_field(wrong: Any, field: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        parse_spec({"id": "p", "steps": [{"task": "t"}], "rateLimit": wrong})
    assert [each.field for each in caught.value.errors] == [field]


def test_a_run_waits_in_one_line_so_both_limits_have_one_key() -> None:
    document = {"id": "p", "steps": [{"task": "t"}], "rateLimit": "1/s", "concurrency": {"key": "${input.a}"}}
    with pytest.raises(InvalidSpec) as caught:
        parse_spec(document)
    assert [(each.field, each.code) for each in caught.value.errors] == [("rateLimit.key", "conflict")]


@pytest.mark.parametrize(
    ("written", "run_input", "key"),
    [
        (None, {}, ALL_RUNS),
        ("${input.shop}", {"shop": "a"}, "a"),
        ("${input.shop}", {"shop": 7}, "7"),
        ("${input.shop}-${input.day}", {"shop": "a", "day": 3}, "a-3"),
        ("${input.shop ?? 'nobody'}", {}, "nobody"),
        ("${variables.zone}", {"shop": "a"}, "zone-a"),
        ("all", 5, "all"),
    ],
)
def test_a_key_is_made_of_the_input(written: str | None, run_input: Any, key: str) -> None:
    assert key_of(written, run_input, {"zone": "zone-${input.shop}"}, "key") == key


@pytest.mark.parametrize(
    "run_input",
    [None, 5, {}, {"shop": None}, {"shop": {}}, {"shop": ""}, {"shop": "x" * 201}, {"shop": "\0"}],
)
def test_an_input_without_a_key_is_refused_with_what_helps(run_input: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        key_of("${input.shop}", run_input, {}, "concurrency.key")
    assert caught.value.errors[0].code == "no_key"
    assert "${input.customer ?? 'nobody'}" in str(caught.value.hint)
