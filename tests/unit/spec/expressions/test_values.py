"""What expressions give: equality, order, arithmetic, null and what is missing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pipeweave.errors import AttemptFailed, ExpressionFailed, InvalidReference
from pipeweave.spec.expressions import parse_condition, parse_expression

SCOPE: dict[str, Any] = {
    "input": {
        "total": 1200,
        "none": None,
        "text": "hello",
        "yes": True,
        "rows": [{"id": 1, "p": {"x": 1}}, {"id": 2, "p": {"x": 2}}],
        "mixed": [{"id": 1}, {}, None],
        "empty": {},
        "big": 2**63 - 1,
    },
    "steps": {"done": {"score": 90}, "null": None},
    "status": {"done": "completed", "gone": "skipped"},
    "errors": {"bad": {"code": "HTTP_503"}},
    "error": {"step": "charge_card", "details": None},
    "loop": {"index": 0, "last": None},
    "last": None,
}
NOW = datetime(2027, 3, 28, 1, 30, tzinfo=UTC)


def value_of(text: str) -> Any:
    return parse_expression(text).evaluate(SCOPE, now=NOW)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 == 1.0", True),
        ("'1' == 1", False),
        ("true == 1", False),
        ("0 == false", False),
        ("null == null", True),
        ("null == false", False),
        ("1 != 2", True),
        ("[1, [true]] == [1.0, [true]]", True),
        ("[1] == [true]", False),
        ("[1, 2] == [1]", False),
        ("input.rows[0].p == input.rows[0].p", True),
        ("input.rows[0].p == input.rows[1].p", False),
        ("input.empty == input.rows[0]", False),
        ("time('2027-03-28T01:30:00Z') == now()", True),
        ("time('2027-03-28T03:30:00+02:00') == now()", True),
    ],
)
def test_equality_compares_kinds_and_parts(text: str, expected: bool) -> None:
    assert value_of(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 < 1.5", True),
        ("2 <= 2", True),
        ("'a' < 'b'", True),
        ("'B' < 'a'", True),
        ("now() > time('2027-01-01T00:00:00Z')", True),
        ("duration('90m') >= duration('1h')", True),
        ("null < 1", False),
        ("1 > null", False),
        ("null >= null", False),
        ("2 in [1, 2.0]", True),
        ("'2' in [1, 2]", False),
        ("'ell' in input.text", True),
        ("'total' in input", True),
        ("'totl' in input", False),
        ("null in [null]", False),
        ("1 in null", False),
    ],
)
def test_values_are_ordered_and_looked_for(text: str, expected: bool) -> None:
    assert value_of(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2", 3),
        ("1 + 2.5", 3.5),
        ("'a' + 'b'", "ab"),
        ("7 / 2", 3.5),
        ("6 / 2", 3),
        ("7 % 3", 1),
        ("-7 % 3", -1),
        ("7 % -3", 1),
        ("-7.5 % 2", -1.5),
        ("2 * 3 - 1", 5),
        ("-input.total", -1200),
        ("null + 1", None),
        ("1 - null", None),
        ("'a' + null", None),
        ("null * 2", None),
        ("null / 0", None),
        ("-null", None),
        ("now() + duration('2h')", "2027-03-28T03:30:00Z"),
        ("duration('30m') + now()", "2027-03-28T02:00:00Z"),
        ("now() - duration('30m')", "2027-03-28T01:00:00Z"),
        ("now() - time('2027-03-28T01:00:00Z')", 1800),
        ("duration('1h') + duration('500ms')", 3600.5),
        ("duration('1h') - duration('2h')", -3600),
        ("-duration('1h')", -3600),
        ("duration(90) * 2", 180),
        ("[now(), [now()]]", ["2027-03-28T01:30:00Z", ["2027-03-28T01:30:00Z"]]),
    ],
)
def test_arithmetic(text: str, expected: Any) -> None:
    result = value_of(text)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true && null", False),
        ("null || true", True),
        ("!null", True),
        ("null ? 1 : 2", 2),
        ("false && 1", False),
        ("true || input.missing", True),
        ("true ? 1 : input.missing", 1),
        ("null ?? 3", 3),
        ("false ?? true", False),
        ("input.missing ?? 'none'", "none"),
        ("input.missing.more[0] ?? input.text.x ?? 1", 1),
        ("first(input.rows).more ?? 1", 1),
    ],
)
def test_null_is_false_and_what_is_not_needed_is_not_looked_at(text: str, expected: Any) -> None:
    assert value_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("steps.gone", None),
        ("steps.gone.rows[0].id", None),
        ("steps.gone.rows[*].id", None),
        ("steps.gone[0]", None),
        ("steps.null", None),
        ("status.done", "completed"),
        ("status.never", None),
        ("errors.done.code", None),
        ("errors.bad.code", "HTTP_503"),
        ("loop.last.approved", None),
        ("last.approved", None),
        ("input?.missing", None),
        ("input?.missing.more[*].id", None),
        ("input.none?.x", None),
        ("input.text?.x", None),
        ("input.rows?.[9]", None),
        ("input.rows[*].id", [1, 2]),
        ("input.rows[*].p.x", [1, 2]),
        ("input.mixed[*]?.id", [1, None, None]),
        ("error.details?.x", None),
        ("has(input.total)", True),
        ("has(input.totl)", False),
        ("has(input.none)", False),
        ("has(input.none.x)", False),
        ("has(steps.gone.x)", False),
        ("has(item.x)", False),
        ("has(input.rows[*].id)", True),
        ("has(input.mixed[*].id)", False),
    ],
)
def test_a_part_that_may_be_missing_is_null(text: str, expected: Any) -> None:
    assert value_of(text) == expected


@pytest.mark.parametrize(
    ("text", "detail", "hint"),
    [
        (
            "input.totl",
            "${input.totl} does not exist: the object has no key 'totl'",
            "input has no 'totl': did you mean 'total'?",
        ),
        (
            "input.rows[*].idd",
            "${input.rows[*].idd} does not exist: the object has no key 'idd'",
            "input.rows[*] has no 'idd': did you mean 'id'?",
        ),
        (
            "input.rows[0].zzz",
            "${input.rows[0].zzz} does not exist: the object has no key 'zzz'",
            "its keys are id, p",
        ),
        (
            "input.empty.x",
            "${input.empty.x} does not exist: the object has no key 'x'",
            "the object is empty",
        ),
        (
            "input.total-1",
            "${input.total-1} does not exist: the object has no key 'total-1'",
            "'total' is a key: a minus or a colon needs a space before it",
        ),
        ("input.rows[2]", "${input.rows[2]} does not exist: the list has 2 entries", None),
        ("input.text[0]", "${input.text[0]} does not exist: 0 needs a list, not a text", None),
        ("input.none.x", "${input.none.x} does not exist: 'x' needs an object, not null", None),
        ("steps.null.x", "${steps.null.x} does not exist: 'x' needs an object, not null", None),
        ("steps.done.scores", "${steps.done.scores} does not exist: the object has no key 'scores'", ...),
        ("input.text[*]", "${input.text[*]} does not exist: [*] needs a list, not a text", None),
        ("item.x", "${item.x} does not exist: item has no value here", None),
        ("first(input.rows).x", "${first(input.rows).x} does not exist: the object has no key 'x'", ...),
    ],
)
def test_any_other_missing_part_fails_and_says_what_there_is(text: str, detail: str, hint: Any) -> None:
    with pytest.raises(InvalidReference) as failed:
        value_of(text)
    assert failed.value.detail == detail
    assert hint is ... or failed.value.hint == hint


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1 < 'a'", "< cannot compare a number with a text"),
        ("true < false", "< cannot compare a boolean with a boolean"),
        ("now() < '2027-01-01T00:00:00Z'", "< cannot compare a time with a text"),
        ("1 + 'a'", "+ cannot add a number and a text"),
        ("now() + now()", "+ cannot add a time and a time"),
        ("1 - 'a'", "- cannot subtract a text from a number"),
        ("'a' * 2", "* cannot multiply a text and a number"),
        ("[] / 2", "/ cannot divide a list by a number"),
        ("1 / 0", "division by zero"),
        ("1.5 % 0", "division by zero"),
        ("-'a'", "- needs a number, not a text"),
        ("input.big + 1", "the number is beyond 64 bits"),
        ("1e308 * 10", "the number is beyond 64 bits"),
        ("1 && true", "a number is neither true nor false"),
        ("!'a'", "a text is neither true nor false"),
        ("[] ? 1 : 2", "a list is neither true nor false"),
        ("1 in 2", "a number cannot hold a number"),
        ("1 in 'a1'", "a text cannot hold a number"),
        ("now() + duration('366d') * 9999999", "a number or a time is beyond its bounds"),
    ],
)
def test_a_value_that_does_not_fit_fails_with_the_expression(text: str, why: str) -> None:
    with pytest.raises(ExpressionFailed) as failed:
        value_of(text)
    assert failed.value.detail == f"{text!r} cannot be evaluated: {why}"
    assert isinstance(failed.value, AttemptFailed)
    assert failed.value.code == "EXPRESSION_FAILED"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("input.yes", True), ("input.none", False), ("steps.gone", False), ("input.total > 1000", True)],
)
def test_a_condition_is_true_false_or_null(text: str, expected: bool) -> None:
    assert parse_condition(text).is_true(SCOPE) is expected


@pytest.mark.parametrize(
    ("text", "kind"),
    [("input.total", "a number"), ("input.text", "a text"), ("[]", "a list"), ("now()", "a text")],
)
def test_there_is_no_truthiness(text: str, kind: str) -> None:
    with pytest.raises(ExpressionFailed, match=f"a condition gives true, false or null, not {kind}"):
        parse_condition(text).is_true(SCOPE, now=NOW)


def test_now_fails_where_there_is_no_time() -> None:
    with pytest.raises(ExpressionFailed, match="has no value here"):
        parse_expression("now()").evaluate({})


def test_an_evaluation_changes_nothing() -> None:
    rows = [{"id": 1}]
    result = parse_expression("input.rows[*]").evaluate({"input": {"rows": rows}})
    result.append(2)
    assert rows == [{"id": 1}]
