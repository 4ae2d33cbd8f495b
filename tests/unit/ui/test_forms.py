"""Each kind of field of an input schema is a field of the form, and comes back as the value it means."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipeweave.api.ui import forms
from pipeweave.api.ui.verbs import Verb
from pipeweave.errors import InvalidInput


def field(type: str, **more: Any) -> dict[str, Any]:
    return {"name": "x", "label": "The x", "type": type, **more}


def sent(schema_field: dict[str, Any], text: str) -> Any:
    """The value of the one field when somebody types this."""
    fields = forms.fields_of({"fields": [schema_field]}, None)
    body = Verb("", "", "", "", fields=fields).read({"input.x": text})
    return body.get("input", {}).get("x")


@pytest.mark.parametrize(
    ("schema_field", "text", "value"),
    [
        (field("string"), "a b", "a b"),
        (field("textarea"), "a\nb", "a\nb"),
        (field("email"), "a@example.com", "a@example.com"),
        (field("url"), "https://example.com", "https://example.com"),
        (field("integer"), "-3", -3),
        (field("number"), "2.5", 2.5),
        (field("boolean"), "true", True),
        (field("boolean", required=True), "false", False),
        (field("boolean"), "", None),
        (field("date"), "2026-11-22", "2026-11-22"),
        (field("datetime"), "2026-11-22T09:30:00Z", "2026-11-22T09:30:00Z"),
        (field("select", options=[{"value": "a", "label": "A"}]), "a", "a"),
        (
            field("multiselect", options=[{"value": "a", "label": "A"}, {"value": "b, c"}]),
            "a\nb, c",
            ["a", "b, c"],
        ),
        (field("array", items=field("string")), "one\r\n\r\ntwo", ["one", "two"]),
        (field("array", items=field("integer")), "1\n2", [1, 2]),
        (field("array"), "[1, null]", [1, None]),
        (field("select", options=[{"value": 1, "label": "one"}]), "1", 1),
        (field("json"), '{"a": [1]}', {"a": [1]}),
        (field("file"), "tmp_01jd", "tmp_01jd"),
    ],
)
def test_what_is_typed_becomes_a_value_of_the_fields_type(
    schema_field: dict[str, Any], text: str, value: Any
) -> None:
    assert sent(schema_field, text) == value


def test_an_empty_field_is_left_out() -> None:
    assert sent(field("string"), "") is None
    assert sent(field("integer"), " ") is None


def test_what_is_no_number_and_no_json_is_said_of_the_field() -> None:
    for schema_field in (field("integer"), field("json"), field("boolean")):
        with pytest.raises(InvalidInput) as caught:
            sent(schema_field, "nonsense")
        assert [each.field for each in caught.value.errors] == ["input.x"]


def test_objects_have_fields_of_their_own_two_deep() -> None:
    deepest = {"name": "c", "label": "C", "type": "object", "properties": [field("string")]}
    inner = {"name": "b", "label": "B", "type": "object", "properties": [field("integer"), deepest]}
    outer = {"name": "a", "label": "A", "type": "object", "properties": [field("string"), inner]}
    fields = forms.fields_of({"fields": [outer]}, {"a": {"b": {"x": 3, "c": {"x": "deep"}}}})
    assert [(each.name, each.kind) for each in fields] == [("input.a.x", "text"), ("input.a.b", "json")]
    assert json.loads(fields[1].default) == {"x": 3, "c": {"x": "deep"}}
    body = Verb("", "", "", "", fields=fields).read({"input.a.x": "t", "input.a.b": '{"x": 4}'})
    assert body == {"input": {"a": {"x": "t", "b": {"x": 4}}}}


def test_a_form_begins_with_the_given_value_else_with_the_default() -> None:
    listed = [{**field("string"), "default": "from the schema"}, {**field("boolean"), "name": "y"}]
    plain = forms.fields_of({"fields": listed}, None)
    assert [each.default for each in plain] == ["from the schema", ""]
    given = forms.fields_of({"fields": listed}, {"x": "mine", "y": False})
    assert [each.default for each in given] == ["mine", "false"]


def test_a_field_says_what_counts_where_it_stays_empty_and_sends_nothing_then() -> None:
    listed = [field("integer"), {**field("boolean"), "name": "y"}, {**field("string"), "name": "z"}]
    fields = forms.fields_of({"fields": listed}, None, defaults={"x": 20, "y": True})
    assert [(each.default, each.if_empty) for each in fields] == [("", "20"), ("", "true"), ("", "")]
    assert fields[1].choices[0] == ("", "true by default")
    assert Verb("", "", "", "", fields=fields).read({}) == {}


def test_a_value_that_a_field_cannot_show_is_shown_as_json() -> None:
    (shown,) = forms.fields_of({"fields": [field("string")]}, {"x": ["not", "a", "text"]})
    assert (shown.kind, json.loads(shown.default)) == ("json", ["not", "a", "text"])


def test_without_a_schema_or_with_dots_in_names_the_input_is_one_json_field() -> None:
    for schema in (None, {"fields": []}, {"fields": [{**field("string"), "name": "a.b"}]}):
        (whole,) = forms.fields_of(schema, {"a.b": 1})
        assert (whole.name, whole.kind, json.loads(whole.default)) == ("input", "json", {"a.b": 1})
