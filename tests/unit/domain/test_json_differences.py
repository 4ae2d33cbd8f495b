"""Where two JSON values differ."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pipeweave.orchestrator.domain.json_differences import SHOWN_CHARS, differences

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


def found(before: Any, after: Any, most: int = 100) -> list[tuple[str, str, Any, Any]]:
    return [(each.path, each.change, each.before, each.after) for each in differences(before, after, most)[0]]


def test_members_are_added_removed_and_changed() -> None:
    before = {"day": 1, "lines": [{"price": 2}, {"price": 3}], "old": True}
    after = {"day": 1, "lines": [{"price": 2}, {"price": 4}, 5], "new": None}
    assert found(before, after) == [
        (".lines[1].price", "changed", 3, 4),
        (".lines[2]", "added", None, 5),
        (".old", "removed", True, None),
        (".new", "added", None, None),
    ]


def test_a_value_of_another_kind_is_changed_as_a_whole() -> None:
    assert found({"a": [1]}, {"a": {"b": 1}}) == [(".a", "changed", [1], {"b": 1})]
    assert found(1, "1") == [("", "changed", 1, "1")]
    assert found(True, 1) == [("", "changed", True, 1)]
    assert found(1, 1.0) == []


def test_names_that_are_no_words_are_quoted() -> None:
    assert [each[0] for each in found({}, {"a.b": 1, 'say "x"': 2, "": 3, "ok-1": 4})] == [
        '["a.b"]',
        r'["say \"x\""]',
        '[""]',
        ".ok-1",
    ]


def test_no_more_differences_than_wanted_are_listed() -> None:
    assert differences(list(range(5)), [9] * 5, 5)[1]
    listed, is_complete = differences(list(range(6)), [9] * 6, 5)
    assert (len(listed), is_complete) == (5, False)


def test_a_long_value_is_cut() -> None:
    [one] = differences("x" * SHOWN_CHARS, 1, 1)[0]
    assert one.is_cut
    assert len(one.before) == SHOWN_CHARS


@given(JSON, JSON)
def test_values_that_do_not_differ_are_equal_and_the_other_way_round(one: Any, other: Any) -> None:
    is_same = repr(one) == repr(other) or (not found(one, other) and one == other)
    assert bool(found(one, other)) is not is_same
    assert not found(one, one)
    assert len(found(one, other)) == len(found(other, one))
