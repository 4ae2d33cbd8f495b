"""Input schemas: the table of the worker protocol."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave.schema.validation import apply_defaults, validate_input, validate_schema

OPTIONS = [{"label": "A", "value": "a"}, {"label": "B", "value": "b"}]
NUMBERS = [{"label": "1", "value": 1}, {"label": "2", "value": 2}]


def field(type: str, **more: Any) -> dict[str, Any]:
    return {"name": "f", "type": type, "label": "F", **more}


def check(definition: dict[str, Any], *value: Any) -> list[tuple[str, str]]:
    given = {"f": value[0]} if value else {}
    return [(each.field, each.code) for each in validate_input({"fields": [definition]}, given)]


@pytest.mark.parametrize(
    ("definition", "value"),
    [
        (field("string"), ""),
        (field("textarea", minLength=2, maxLength=2), "ab"),
        (field("string", maxLength=2), "😀"),
        (field("string", pattern="b"), "abc"),
        (field("email"), "ada.l+x@example.co.uk"),
        (field("url"), "https://example.com:8080/a?b#c"),
        (field("url"), "mailto:ada@example.com"),
        (field("number", min=1, max=1), 1),
        (field("number"), 1.5),
        (field("integer"), 3.0),
        (field("boolean"), False),
        *((field("date"), value) for value in ("2024-02-30", "2024", "2024-01-05T10:00:00Z", 0, True, None)),
        (field("datetime"), "March 7, 2024"),
        (field("datetime"), "Mon, 25 Dec 1995 13:30:00 +0430"),
        (field("select", options=OPTIONS), "b"),
        (field("select", options=NUMBERS), 2),
        (field("select"), {"any": 1}),
        (field("multiselect", options=OPTIONS), ["a", "b"]),
        (field("multiselect"), [1, "x"]),
        (field("json"), None),
        (field("file"), "upload_1"),
        (field("array", items=field("integer")), [1, 2]),
        (field("array"), [None, "x"]),
        (field("object"), {"any": 1}),
        (field("object", properties=[field("integer")]), {"f": 1, "dropped": 2}),
    ],
)
def test_accepted(definition: dict[str, Any], value: Any) -> None:
    assert check(definition, value) == []


@pytest.mark.parametrize(
    ("definition", "value", "where", "code"),
    [
        (field("string"), 1, "f", "invalid_type"),
        (field("string"), None, "f", "invalid_type"),
        (field("string", minLength=3), "ab", "f", "too_small"),
        (field("string", maxLength=1), "😀", "f", "too_big"),
        (field("string", pattern="^b"), "abc", "f", "invalid_string"),
        (field("email"), "ada@localhost", "f", "invalid_string"),
        (field("email"), "a..b@example.com", "f", "invalid_string"),
        (field("url"), "example.com", "f", "invalid_string"),
        (field("url"), "http://", "f", "invalid_string"),
        (field("number"), "1", "f", "invalid_type"),
        (field("number"), True, "f", "invalid_type"),
        (field("number", min=2), 1, "f", "too_small"),
        (field("number", max=2), 3, "f", "too_big"),
        (field("integer"), 1.5, "f", "invalid_type"),
        (field("boolean"), 1, "f", "invalid_type"),
        (field("date"), "soon", "f", "invalid_date"),
        (field("date"), "2024-13-01", "f", "invalid_date"),
        (field("datetime"), [], "f", "invalid_date"),
        (field("select", options=OPTIONS), "c", "f", "invalid_enum_value"),
        (field("select", options=NUMBERS), True, "f", "invalid_union"),
        (field("select", options=NUMBERS[:1]), 2, "f", "invalid_literal"),
        (field("multiselect", options=OPTIONS), ["a", "c"], "f.1", "invalid_enum_value"),
        (field("multiselect"), "a", "f", "invalid_type"),
        (field("file"), 1, "f", "invalid_type"),
        (field("array", items=field("integer")), [1, "x"], "f.1", "invalid_type"),
        (field("object"), [], "f", "invalid_type"),
        (field("object", properties=[field("integer", required=True)]), {}, "f.f", "invalid_type"),
    ],
)
def test_refused(definition: dict[str, Any], value: Any, where: str, code: str) -> None:
    assert check(definition, value) == [(where, code)]


def test_a_missing_value_is_reported_where_it_is_required() -> None:
    assert check(field("string", required=True)) == [("f", "invalid_type")]
    assert check(field("date", required=True)) == [("f", "invalid_date")]
    assert check(field("json", required=True)) == []
    assert check(field("string")) == []
    assert check(field("string", required=True, showIf={"field": "f", "operator": "eq", "value": "x"})) != []


def test_unknown_members_are_refused_only_when_strict_and_only_at_the_top() -> None:
    schema = {"fields": [field("object", properties=[])], "strict": True}
    assert validate_input(schema, {"f": {"x": 1}}) == []
    (error,) = validate_input(schema, {"x": 1, "y": 2})
    assert (error.field, error.code) == ("", "unrecognized_keys")
    assert "'x', 'y'" in error.message
    assert validate_input({**schema, "strict": False}, {"x": 1}) == []


def test_the_whole_input() -> None:
    assert validate_input(None, "anything") == []
    (error,) = validate_input({"fields": []}, [1])
    assert (error.field, error.code) == ("", "invalid_type")
    (broken,) = validate_input({"fields": 5}, {})
    assert (broken.field, broken.code) == ("_schema", "invalid_schema")
    assert validate_input({"fields": [field("string", pattern="(")]}, {"f": "x"}) == []


def test_messages_are_those_that_clients_know() -> None:
    found = validate_input(
        {
            "fields": [
                {"name": "a", "type": "string", "label": "A", "minLength": 3},
                {"name": "b", "type": "number", "label": "B", "max": 3},
                {"name": "c", "type": "integer", "label": "C"},
                {"name": "d", "type": "email", "label": "D"},
                {"name": "e", "type": "url", "label": "E"},
                {"name": "f", "type": "string", "label": "F", "pattern": "x"},
                {"name": "g", "type": "string", "label": "G", "required": True},
            ]
        },
        {"a": "", "b": 4, "c": 0.5, "d": "d", "e": "e", "f": "f"},
    )
    assert [each.message for each in found] == [
        "Minimum length is 3",
        "Maximum value is 3",
        "Must be an integer",
        "Invalid email address",
        "Invalid URL",
        "Invalid format",
        "Required",
    ]


def test_defaults_fill_what_is_missing_and_optional() -> None:
    schema = {
        "fields": [
            {**field("string", default="x"), "name": "a"},
            {**field("string", default="y", required=True), "name": "b"},
        ]
    }
    assert apply_defaults(schema, {"c": 1}) == {"a": "x", "c": 1}
    assert apply_defaults(None, {"c": 1}) == {"c": 1}


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        (5, ""),
        ({}, "fields"),
        ({"fields": [], "strikt": True}, "strikt"),
        ({"fields": [], "strict": "yes"}, "strict"),
        ({"fields": ["x"]}, "fields[0]"),
        ({"fields": [{"type": "string", "label": "x"}]}, "fields[0].name"),
        ({"fields": [field("strng")]}, "fields[0].type"),
        ({"fields": [field("string"), field("string")]}, "fields[1].name"),
        ({"fields": [field("string", required="yes")]}, "fields[0].required"),
        ({"fields": [field("string", minLength=-1)]}, "fields[0].minLength"),
        ({"fields": [field("number", min="1")]}, "fields[0].min"),
        ({"fields": [field("string", pattern="(")]}, "fields[0].pattern"),
        ({"fields": [field("string", helpText=1)]}, "fields[0].helpText"),
        ({"fields": [field("select", options=["a"])]}, "fields[0].options[0]"),
        ({"fields": [field("select", options=[{"label": "a"}])]}, "fields[0].options[0].value"),
        (
            {"fields": [field("array", items={"name": "x", "label": "x", "type": "?"})]},
            "fields[0].items.type",
        ),
        ({"fields": [field("object", properties=[{"name": "x"}])]}, "fields[0].properties[0].label"),
        ({"fields": [field("string", showIf={"field": "g", "operator": "eq"})]}, "fields[0].showIf.field"),
        ({"fields": [field("string", showIf={"field": "f", "operator": "is"})]}, "fields[0].showIf.operator"),
        ({"fields": [field("string", maxLenght=3)]}, "fields[0].maxLenght"),
    ],
)
def test_a_wrong_schema_is_told_with_its_place(schema: Any, where: str) -> None:
    assert where in [each.field for each in validate_schema(schema)]


def test_a_schema_that_is_too_deep_is_refused() -> None:
    deep = field("string")
    for _ in range(20):
        deep = field("array", items=deep)
    assert "too_large" in [each.code for each in validate_schema({"fields": [deep]})]
