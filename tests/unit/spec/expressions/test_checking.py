"""Mistakes of expressions that are known before they are stored."""

from __future__ import annotations

import pytest

from pipeweave.spec.expressions import Fault, Known, check, parse_condition, parse_expression

SCHEMA = {
    "strict": True,
    "fields": [
        {"name": "total", "label": "Total", "type": "number"},
        {"name": "name", "label": "Name", "type": "string"},
        {
            "name": "country",
            "label": "Country",
            "type": "select",
            "options": [{"label": "DE", "value": "DE"}, {"label": "AT", "value": "AT"}],
        },
        {
            "name": "order",
            "label": "Order",
            "type": "object",
            "properties": [{"name": "id", "label": "Id", "type": "string"}],
        },
    ],
}
KNOWN = Known(
    roots=("input", "steps", "status", "errors", "variables", "trigger", "run"),
    before=("check", "charge_card"),
    excluded=("reject",),
    elsewhere=("ship",),
    variables=("limit",),
    input_schema=SCHEMA,
)


def faults_of(text: str, known: Known = KNOWN) -> list[Fault]:
    return check(parse_condition(text), known)


@pytest.mark.parametrize(
    "text",
    [
        "steps.check.score > 80",
        "status.reject == 'skipped'",
        "status.check in ['completed', 'skipped']",
        "errors.check.code == 'HTTP_503'",
        "input.total > variables.limit",
        "input.country in ['DE', 'AT'] && input.order.id == 'a'",
        "input.country == null",
        "run.outcome == 'failed'",
        "trigger.type == 'webhook'",
        "true",
        "null",
        "input.order.more == 1",
        "steps.check.done",
        "steps.check.done ?? false",
        "any([true])",
        "input.total + 1 > 3",
        "now() - time(trigger.timestamp) > duration('1h')",
    ],
)
def test_a_right_condition_has_no_faults(text: str) -> None:
    assert faults_of(text) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "item.x == 1",
            Fault(
                "item.x has no value here: use errors, input, run, status, steps, trigger, variables",
                1,
                "out_of_place",
                None,
            ),
        ),
        (
            "error.step == 'x'",
            Fault(
                "error.step has no value here: use errors, input, run, status, steps, trigger, variables",
                1,
                "out_of_place",
                "errors",
            ),
        ),
        (
            "1 == steps.chek.x",
            Fault("'chek' is not a step; did you mean 'check'?", 6, "unknown_step", "check"),
        ),
        (
            "status.shipp == 'failed'",
            Fault("'shipp' is not a step; did you mean 'ship'?", 1, "unknown_step", "ship"),
        ),
        (
            "steps.ship.x == 1",
            Fault("steps.ship.x has no value: the step 'ship' does not come before", 1, "later_step"),
        ),
        (
            "steps.reject.x == 1",
            Fault(
                "steps.reject.x has no value: its branch excludes this one, only status.reject can be read",
                1,
                "excluded_step",
            ),
        ),
        (
            "input.totl > 1",
            Fault(
                "'totl' is not an input of this pipeline; did you mean 'total'?", 1, "unknown_input", "total"
            ),
        ),
        (
            "variables.limt > 1",
            Fault("'limt' is not in variables; did you mean 'limit'?", 1, "unknown_name", "limit"),
        ),
        (
            "trigger.typ == 'x'",
            Fault("'typ' is not in trigger; did you mean 'type'?", 1, "unknown_name", "type"),
        ),
        (
            "status.check == 'complete'",
            Fault(
                "status.check is never 'complete': did you mean 'completed'?",
                17,
                "not_an_option",
                "completed",
            ),
        ),
        (
            "run.outcome in ['failed', 'broken']",
            Fault(
                "run.outcome is never 'broken': it is one of 'completed', 'partial', 'failed', 'cancelled'",
                27,
                "not_an_option",
                None,
            ),
        ),
        (
            "'CH' == input.country",
            Fault("input.country is never 'CH': it is one of 'DE', 'AT'", 1, "not_an_option", None),
        ),
        (
            "'a' + 'b'",
            Fault(
                "gives a text, a condition gives true or false: compare it with something", 1, "no_condition"
            ),
        ),
        (
            "5",
            Fault(
                "gives a number, a condition gives true or false: compare it with something",
                1,
                "no_condition",
            ),
        ),
        (
            "input.total",
            Fault(
                "gives a number, a condition gives true or false: compare it with something",
                1,
                "no_condition",
            ),
        ),
        (
            "true ? 'a' : 'b'",
            Fault(
                "gives a text, a condition gives true or false: compare it with something", 1, "no_condition"
            ),
        ),
        ("'1' == 1", Fault("a text never equals a number", 5, "never_equal")),
        ("input.total == 'many'", Fault("a number never equals a text", 13, "never_equal")),
        ("input.total > 'many'", Fault("> cannot compare a number with a text", 13, "wrong_kind")),
        (
            "now() > '2027-01-01T00:00:00Z'",
            Fault("> cannot compare a time with a text", 7, "wrong_kind"),
        ),
        ("[1] < [2]", Fault("< cannot compare a list", 5, "wrong_kind")),
        (
            "true && 'a'",
            Fault("a text is neither true nor false: compare it with something", 9, "wrong_kind"),
        ),
        (
            "input.name || true",
            Fault("a text is neither true nor false: compare it with something", 1, "wrong_kind"),
        ),
        ("input.name * 2 > 1", Fault("* cannot calculate with a text", 12, "wrong_kind")),
        (
            "'a' + input.total == 'a1'",
            Fault("+ cannot add a text and a number: write text(…) around the number", 5, "wrong_kind"),
        ),
        (
            "'${input.country}' == input.name",
            Fault(
                "a text in quotes is not looked into: write the path without quotes and ${ }",
                1,
                "reference_in_text",
            ),
        ),
    ],
)
def test_a_wrong_condition_is_refused_with_its_place_and_the_nearest_name(text: str, fault: Fault) -> None:
    assert faults_of(text) == [fault]


def test_all_faults_come_at_once_in_the_order_of_the_text() -> None:
    faults = faults_of("steps.chek.x == 1 && input.totl > 1 && status.check == 'complete'")
    assert [each.code for each in faults] == ["unknown_step", "unknown_input", "not_an_option"]


def test_at_most_a_hundred_faults_are_told() -> None:
    assert len(faults_of("||".join(["item"] * 150))) == 100


def test_an_expression_that_is_no_condition_may_give_anything() -> None:
    assert check(parse_expression("'a' + 'b'"), KNOWN) == []


def test_where_there_is_no_time_now_is_refused() -> None:
    fault = Fault("now() has no value here", 1, "out_of_place")
    assert faults_of("now() == null", Known(has_now=False)) == [fault]


def test_what_is_not_known_is_not_refused() -> None:
    assert faults_of("steps.x == input.y && variables.z == item && last.w == 1", Known()) == []


def test_a_schema_that_is_not_strict_takes_other_names() -> None:
    known = Known(input_schema={**SCHEMA, "strict": False})
    assert faults_of("input.other == 1", known) == []
