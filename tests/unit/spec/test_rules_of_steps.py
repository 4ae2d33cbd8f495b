"""What a document says of when a step runs, how it is retried, and what its failure means."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave.errors import InvalidSpec
from pipeweave.spec import ALL, ALL_DONE, ANY, JoinRule, StepRetry, dry_run, parse_spec
from pipeweave.spec.async_defaults import AsyncDefaults
from pipeweave.spec.pipeline_spec import StepSpec
from pipeweave.spec.words_of_others import WORDS


def step_of(**keys: Any) -> StepSpec:
    """The second of two steps, which has these keys."""
    return parse_spec({"id": "p", "steps": [{"task": "before"}, {"task": "t", **keys}]}).steps[1]


def mistakes_of(*steps: Any, **more: Any) -> dict[str, str]:
    with pytest.raises(InvalidSpec) as refused:
        parse_spec({"id": "p", "steps": list(steps), **more})
    told: dict[str, str] = {}
    for each in refused.value.errors:
        told[each.field] = "; ".join(filter(None, [told.get(each.field), each.message]))
    return told


def mistakes(**keys: Any) -> dict[str, str]:
    return mistakes_of({"task": "before"}, {"task": "t", **keys})


def test_a_step_says_how_long_a_suspended_call_may_take() -> None:
    written = {"timeout": "2d", "poll": {"interval": "10s", "max_attempts": 7, "timeout": "1h"}}
    suspends = step_of(**{"async": written}).suspends
    assert suspends == AsyncDefaults(172_800_000, 10_000, 7, 3_600_000)
    shown = {
        "timeoutMs": 172_800_000,
        "poll": {"intervalMs": 10_000, "maxAttempts": 7, "timeoutMs": 3_600_000},
    }
    assert suspends.to_json() == shown
    assert step_of(**{"async": shown}).suspends == suspends
    assert step_of().suspends is None
    assert step_of(**{"async": {}}).suspends == AsyncDefaults()


@pytest.mark.parametrize(
    ("written", "field"),
    [
        (7, "async"),
        ({"timeuot": 3}, "async.timeuot"),
        ({"timeout": "soon"}, "async.timeout"),
        ({"poll": []}, "async.poll"),
        ({"poll": {"interval": "500ms"}}, "async.poll.interval"),
        ({"poll": {"maxAttempts": 0}}, "async.poll.maxAttempts"),
        ({"poll": {"maxAttempts": True}}, "async.poll.maxAttempts"),
    ],
)
def test_mistakes_of_a_suspended_calls_limits_have_a_place(written: Any, field: str) -> None:
    with pytest.raises(InvalidSpec) as raised:
        step_of(**{"async": written})
    assert [each.field.partition("].")[2] for each in raised.value.errors] == [field]


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        (None, ALL),
        ("all", ALL),
        ("all-done", ALL_DONE),
        ("any", ANY),
        ({"atLeast": 1}, ANY),
    ],
)
def test_a_join_rule_is_read(written: Any, rule: JoinRule) -> None:
    assert step_of(join=written).join == rule


def test_an_empty_retry_has_three_attempts_with_growing_delays() -> None:
    assert step_of(retry={}).retry == StepRetry(3, 1_000, "exponential", 2, 30_000, 0, None)


def test_both_notations_of_a_retry_are_the_same() -> None:
    other = {"attempts": 5, "delay_ms": 10, "max_delay_ms": 100, "backoff_multiplier": 3, "retry_on": ["A"]}
    own = {"attempts": 5, "delayMs": 10, "maxDelayMs": 100, "multiplier": 3, "retryOn": ["A", "A"]}
    assert step_of(retry=other) == step_of(retry=own)
    assert step_of(retry=own).retry == StepRetry(5, 10, "exponential", 3, 100, 0, ("A",))


def test_both_notations_of_a_tolerated_failure_are_the_same() -> None:
    assert step_of(continue_on_error=True) == step_of(continueOnError=True)
    assert step_of(continue_on_error=True).continue_on_error
    assert not step_of(continueOnError=False).continue_on_error


def test_both_notations_of_a_pause_are_the_same_and_a_step_without_one_reads_as_ever() -> None:
    assert step_of(on_exhausted="pause") == step_of(onExhausted="pause")
    assert step_of(onExhausted="fail").to_json()["onExhausted"] == "fail"
    assert step_of(onExhausted=None).on_exhausted is None
    assert "onExhausted" not in step_of().to_json()


def test_a_pipeline_says_it_for_its_steps() -> None:
    document = {"id": "p", "onExhausted": "pause", "steps": [{"id": "t", "task": "t"}]}
    spec = parse_spec(document)
    assert (spec.on_exhausted, spec.steps[0].on_exhausted) == ("pause", None)
    assert parse_spec(spec.to_json()) == spec
    with pytest.raises(InvalidSpec, match="use one of fail, pause"):
        parse_spec({**document, "onExhausted": "stop"})


def test_only_what_runs_a_task_may_pause() -> None:
    for each in ({"sleep": "1h"}, {"pipeline": "other"}, {"transform": 1}):
        with pytest.raises(InvalidSpec, match="onExhausted is not allowed next to"):
            parse_spec({"id": "p", "steps": [{"id": "s", "onExhausted": "pause", **each}]})


@pytest.mark.parametrize(("written", "ms"), [("30s", 30_000), (1.5, 1_500), ("2h", 7_200_000)])
def test_the_time_limit_of_an_attempt_is_kept_in_ms(written: Any, ms: int) -> None:
    assert step_of(timeout=written).timeout_ms == ms == step_of(timeoutMs=ms).timeout_ms


def test_an_action_of_an_adapter_is_a_task_with_thirty_seconds() -> None:
    spec = parse_spec({"id": "p", "steps": [{"adapter": "payments", "action": "charge"}]})
    assert spec.to_json()["steps"] == [
        {"id": "charge", "task": "payments.charge", "needs": [], "timeoutMs": 30_000, "async": {}}
    ]
    longer = parse_spec({"id": "p", "steps": [{"adapter": "a", "action": "b", "timeout": "5m"}]})
    assert longer.steps[0].timeout_ms == 300_000


def test_time_limits_may_be_written_together() -> None:
    """As the engine's specification writes them."""
    inner = {"id": "inner", "task": "t"}
    steps = [
        {"id": "plain", "task": "t"},
        {"id": "own", "task": "t", "timeout": "2m"},
        {"id": "action", "adapter": "payments", "action": "charge"},
        {"id": "nap", "sleep": "1h"},
        {"id": "each", "map": {"over": "${input.all}", "steps": [inner]}},
    ]
    limits = {"step_timeout": "30s", "flow_timeout": "5m", "idle_timeout": "1m"}
    spec = parse_spec({"id": "p", "steps": steps, "timeouts": limits})
    assert (spec.timeout_ms, spec.idle_timeout_ms) == (300_000, 60_000)
    assert [each.timeout_ms for each in spec.steps] == [30_000, 120_000, 30_000, None, None]
    assert spec.bodies["each.map"].steps[0].timeout_ms == 30_000
    assert parse_spec(spec.to_json()) == spec
    longer = parse_spec({"id": "p", "steps": steps[2:3], "timeouts": {"step_timeout": "3m"}})
    assert (longer.steps[0].timeout_ms, longer.timeout_ms) == (180_000, None)


@pytest.mark.parametrize(
    ("limits", "more", "field", "why"),
    [
        ("30s", {}, "timeouts", "must be an object, not a text"),
        (None, {}, "timeouts", "must be an object, not null"),
        ({"step_timeout": "soon"}, {}, "timeouts.step_timeout", "is 'soon'"),
        ({"flow_timout": "5m"}, {}, "timeouts.flow_timout", "did you mean 'flow_timeout'?"),
        ({"flow_timeout": "5m"}, {"timeout": "5m"}, "timeouts.flow_timeout", "is the same as `timeout`"),
        ({"idle_timeout": "5m"}, {"idleTimeoutMs": 1}, "timeouts.idle_timeout", "the same as `idleTimeout`"),
    ],
)
def test_wrong_time_limits_are_refused_with_their_field(
    limits: Any, more: dict[str, Any], field: str, why: str
) -> None:
    assert why in mistakes_of({"task": "t"}, timeouts=limits, **more)[field]


def test_what_a_step_of_another_notation_has_is_normalised() -> None:
    """A step as the engine's specification writes it."""
    step = {
        "id": "charge_card",
        "condition": "${input.total} > 0",
        "adapter": "payments",
        "action": "charge",
        "params": {"amount": "${input.total}"},
        "timeout": "30s",
        "retry": {
            "attempts": 3,
            "backoff": "exponential",
            "delay_ms": 1000,
            "max_delay_ms": 30000,
            "backoff_multiplier": 2,
            "retry_on": ["HTTP_503"],
        },
        "continue_on_error": True,
    }
    spec = parse_spec({"id": "p", "steps": [step]})
    assert spec.to_json()["steps"] == [
        {
            "id": "charge_card",
            "task": "payments.charge",
            "needs": [],
            "params": {"amount": "${input.total}"},
            "condition": "${input.total} > 0",
            "retry": {
                "attempts": 3,
                "delayMs": 1000,
                "backoff": "exponential",
                "multiplier": 2,
                "maxDelayMs": 30000,
                "jitter": 0,
                "retryOn": ["HTTP_503"],
            },
            "timeoutMs": 30000,
            "continueOnError": True,
            "async": {},
        }
    ]
    assert parse_spec(spec.to_json()) == spec


@pytest.mark.parametrize(
    ("keys", "field", "why"),
    [
        ({"join": "al-done"}, ".join", "did you mean 'all-done'?"),
        ({"join": {"atLeast": 0}}, ".join.atLeast", "whole number from 1"),
        ({"join": {"atLeast": 2}}, ".join", "waits for 2 of its predecessors, but the step has 1"),
        ({"join": ["all"]}, ".join", "use all, all-done, any or {atLeast: n}"),
        ({"retry": 3}, ".retry", "must be an object such as {attempts: 3}"),
        ({"retry": {"attempts": 0}}, ".retry.attempts", "must lie between 1 and 10001"),
        ({"retry": {"backof": "fixed"}}, ".retry.backof", "did you mean 'backoff'?"),
        ({"retry": {"backoff": "random"}}, ".retry.backoff", "fixed, linear, exponential"),
        ({"retry": {"delay_ms": 1, "delayMs": 1}}, ".retry.delay_ms", "is the same as `delayMs`"),
        ({"retry": {"retryOn": []}}, ".retry.retryOn", "error codes"),
        ({"timeout": "soon"}, ".timeout", "30s, 5m, 2h"),
        ({"timeout": 5, "timeoutMs": 5}, ".timeoutMs", "cannot be given together"),
        ({"continueOnError": "yes"}, ".continueOnError", "must be true or false"),
        ({"continueOnError": True, "continue_on_error": True}, ".continue_on_error", "leave one of the two"),
        ({"onExhausted": "stop"}, ".onExhausted", "use one of fail, pause"),
        ({"onExhausted": "pause", "continueOnError": True}, ".onExhausted", "either pauses or goes on"),
        ({"condition": True}, ".condition", "must be an expression"),
        ({"condition": " "}, ".condition", "not an empty text"),
        ({"condition": "input.a >"}, ".condition", "ends too early (column 10)"),
        ({"condition": "true ||\n input.a +"}, ".condition", "(line 2, column 11)"),
        ({"condition": "'a' + 'b'"}, ".condition", "a condition gives true or false"),
        ({"condition": "item.x == 1"}, ".condition", "without `map`"),
        ({"condition": "steps.befor.x == 1"}, ".condition", "did you mean 'before'?"),
        ({"condition": "status.befor == 'x'"}, ".condition", "did you mean 'before'?"),
        ({"condition": "status == 1"}, ".condition", "names no step"),
        ({"condition": "steps.t == 1"}, ".condition", "own output"),
        ({"condition": "last.x == 1"}, ".condition", "has no value here"),
        ({"condition": "error.step == 'x'"}, ".condition", "has no value here"),
        ({"condition": "variables.limt == 1"}, ".condition", "is not in variables"),
        ({"condition": "lenn(input.x) == 1"}, ".condition", "did you mean 'len'?"),
        ({"condition": "status.before == 'complete'"}, ".condition", "did you mean 'completed'?"),
        ({"params": {"x": "${input.a +}"}}, ".params.x", "column"),
        ({"params": {"x": "${loop.index}"}}, ".params.x", "has no value here"),
        ({"adapter": "a", "action": "b"}, ".adapter", "cannot be given together with `task`"),
        ({"action": "b"}, ".action", "is not allowed next to `task`"),
        ({"retries": 3}, ".retries", "is an option of the task"),
        ({"onErrors": []}, ".onErrors", "did you mean 'onError'?"),
        ({"task": "pipeweave:choice"}, ".task", "is reserved"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_field(keys: Any, field: str, why: str) -> None:
    assert why in mistakes(**keys)[f"steps[1]{field}"]


def test_all_mistakes_in_expressions_are_told_at_once() -> None:
    steps = [
        {"task": "a", "condition": "input.x >"},
        {"task": "b", "condition": "steps.c.x == 1 && steps.d.y"},
        {"task": "c", "condition": "'a'", "params": {"x": "${steps.e}"}},
    ]
    assert set(mistakes_of(*steps)) == {
        "steps[0].condition",
        "steps[1].condition",
        "steps[2].condition",
        "steps[2].params.x",
    }


def test_an_input_that_the_schema_does_not_have_is_refused_with_the_nearest_one() -> None:
    fields = [
        {"name": "total", "label": "Total", "type": "number"},
        {
            "name": "method",
            "label": "Method",
            "type": "select",
            "options": [{"label": "Card", "value": "card"}, {"label": "Cash", "value": "cash"}],
        },
    ]
    steps = [
        {"task": "a", "condition": "input.totl > 1", "params": {"x": "${input.methd}"}},
        {"task": "b", "condition": "input.method == 'crad'"},
    ]
    wrong = mistakes_of(*steps, inputSchema={"strict": True, "fields": fields})
    assert "did you mean 'total'?" in wrong["steps[0].condition"]
    assert "did you mean 'method'?" in wrong["steps[0].params.x"]
    assert "is never 'crad': did you mean 'card'?" in wrong["steps[1].condition"]
    assert "steps[0].condition" not in mistakes_of(*steps, inputSchema={"fields": fields})


def test_a_stored_version_is_read_whatever_its_expressions_name() -> None:
    schema = {"strict": True, "fields": [{"name": "total", "label": "Total", "type": "number"}]}
    document = {"id": "p", "inputSchema": schema, "steps": [{"task": "a", "params": {"x": "${input.x}"}}]}
    assert parse_spec(document, is_stored=True).steps[0].params == {"x": "${input.x}"}
    with pytest.raises(InvalidSpec):
        parse_spec(document)


def test_who_names_a_step_follows_it_also_by_its_status_or_error() -> None:
    def needs(condition: str) -> tuple[str, ...]:
        steps = [{"task": "a"}, {"task": "b", "needs": [], "condition": condition}]
        return parse_spec({"id": "p", "steps": steps}).steps[1].needs

    assert needs("steps.a.x == 1") == needs("status.a == 'failed'") == needs("errors.a.code == 'X'") == ("a",)
    assert needs("input.x == 1") == ()


def test_an_early_join_takes_at_most_64_predecessors() -> None:
    many = [{"task": "t"} for _ in range(65)]
    wrong = mistakes_of({"parallel": many}, {"task": "end", "join": "any"})
    assert wrong == {"steps[1].join": "has 65 predecessors, at most 64 are allowed for this rule"}
    assert parse_spec({"id": "p", "steps": [{"parallel": many[1:]}, {"task": "end", "join": "any"}]})


def test_a_join_that_sees_no_failure_is_warned_of() -> None:
    steps = [{"task": "a"}, {"id": "clean", "task": "b", "join": "all-done"}]
    (warning,) = dry_run(parse_spec({"id": "p", "steps": steps})).warnings
    assert (warning.code, warning.steps) == ("JOIN_SEES_NO_FAILURE", ("clean",))
    assert not dry_run(parse_spec({"id": "p", "steps": steps, "failureMode": "continue"})).warnings


@pytest.mark.parametrize(
    ("variables", "field", "why"),
    [
        ([], "variables", "must be an object"),
        ({"a b": 1}, "variables.a b", "is not a name"),
        ({"a": "${steps.t}"}, "variables.a", "refer to the input alone"),
        ({"a": "${variables.b}"}, "variables.a", "refer to the input alone"),
        ({"a": "${input.}"}, "variables.a", "column"),
        ({f"v{each}": each for each in range(101)}, "variables", "at most 100"),
    ],
)
def test_wrong_variables_are_refused(variables: Any, field: str, why: str) -> None:
    assert why in mistakes_of({"task": "t"}, variables=variables)[field]


def test_variables_are_part_of_the_version() -> None:
    document = {"id": "p", "variables": {"a": "${input.x * 2}", "b": [1]}, "steps": [{"task": "t"}]}
    spec = parse_spec(document)
    assert spec.variables == document["variables"]
    assert parse_spec(spec.to_json()) == spec
    assert spec.spec_hash != parse_spec({"id": "p", "steps": [{"task": "t"}]}).spec_hash


@pytest.mark.parametrize(("word", "key"), WORDS.items())
def test_a_word_of_other_tools_is_refused_with_the_word_that_is_right_here(word: str, key: str) -> None:
    assert f"did you mean '{key}'?" in mistakes(**{word: "x"})[f"steps[1].{word}"]
