"""Patterns of input schemas: what they match, and how long a hostile one takes."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave.schema import validation
from pipeweave.schema.patterns import matches, pattern_fault
from pipeweave.schema.validation import MAX_PATTERN_TEXT, validate_input


def schema(pattern: str, **members: object) -> dict[str, object]:
    return {"fields": [{"name": "f", "type": "string", "label": "F", "pattern": pattern, **members}]}


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("b", "abc", True),
        ("^b", "abc", False),
        ("^a$", "a\n", False),
        (r"^\d{3}$", "123", True),
        (r"\u0041", "A", True),
        (r"^(?<year>\d{4})/", "2026/11", True),
        (r"a\/b", "a/b", True),
        ("(?i)^ä$", "Ä", True),
        (r"\p{Lu}", "abC", True),
    ],
)
def test_a_pattern_matches_anywhere_as_in_javascript(pattern: str, text: str, fits: bool) -> None:
    assert matches(pattern, text) is fits


@pytest.mark.parametrize("pattern", [r"^(?=.*\d).{8,}$", r"(a)\1", r"(?<!x)y"])
def test_lookaround_and_back_references_are_accepted_and_not_checked(pattern: str) -> None:
    assert pattern_fault(pattern) is None
    assert matches(pattern, "anything")


@pytest.mark.parametrize("pattern", ["(", "[a", "a{3,1}", "*"])
def test_a_pattern_that_no_engine_knows_has_a_fault(pattern: str) -> None:
    assert pattern_fault(pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^(a+)+$", "a" * 5_000 + "!"),
        ("^(a|aa)+$", "a" * 5_000 + "!"),
        ("(x+x+)+y", "x" * MAX_PATTERN_TEXT),
        ("(.*)" * 12 + "=", "x" * MAX_PATTERN_TEXT),
        ("(.{1,250}x){1,2}y", "x" * MAX_PATTERN_TEXT),
    ],
)
def test_a_hostile_pattern_costs_no_more_than_its_text_is_long(pattern: str, text: str) -> None:
    """Python's own engine would need longer than the universe is old, or minutes."""
    began = time.process_time()
    assert not matches(pattern, text)
    assert time.process_time() - began < 20


@pytest.mark.parametrize("pattern", ["((a{1,100}){1,100}){1,100}", "(?:" * 10 + "a" + "){1,10}" * 10])
def test_a_pattern_that_would_grow_without_bound_is_not_compiled(pattern: str) -> None:
    assert matches(pattern, "b")


@given(st.text(max_size=20), st.text(max_size=50))
def test_any_pattern_and_text_give_an_answer(pattern: str, text: str) -> None:
    assert matches(pattern, text) in (True, False)
    pattern_fault(pattern)


def test_a_text_too_long_for_its_pattern_is_refused() -> None:
    assert validate_input(schema("^a*$"), {"f": "a" * MAX_PATTERN_TEXT}) == []
    (error,) = validate_input(schema("^a*$"), {"f": "a" * (MAX_PATTERN_TEXT + 1)})
    assert (error.code, "10,000 characters" in error.message) == ("too_big", True)


def test_the_patterns_of_one_input_share_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "PATTERNS_S", 0.0)
    (error,) = validate_input(schema("a"), {"f": "a"})
    assert (error.field, error.code) == ("f", "too_slow")
