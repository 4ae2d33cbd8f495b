"""An error says each thing once."""

from __future__ import annotations

import traceback

import pytest

from pipeweave.errors import FieldError, InvalidInput

TIMEOUT = FieldError("timeout", "is 5")
OTHER = FieldError("", "the body is empty")


@pytest.mark.parametrize(
    ("detail", "further"),
    [
        ("task 'a': timeout is 5", [OTHER]),
        ("pipeline 'p': timeout: is 5 (and 1 more)", [OTHER]),
        ("the body is empty", [TIMEOUT]),
        ("it is wrong", [TIMEOUT, OTHER]),
    ],
)
def test_the_field_errors_that_the_detail_says_are_left_out(detail: str, further: list[FieldError]) -> None:
    assert list(InvalidInput(detail, errors=[TIMEOUT, OTHER]).further_errors) == further


def test_the_only_field_error_is_not_said_again_when_the_detail_names_its_place_in_other_words() -> None:
    error = FieldError("steps[0].task", "no service has registered task 'greet'")
    assert InvalidInput(f"pipeline 'a': {error.message}", errors=[error]).further_errors == ()


def test_a_traceback_shows_further_fields_and_the_hint() -> None:
    error = InvalidInput(
        "a is wrong", errors=[FieldError("a", "is wrong"), FieldError("b", "is missing")], hint="try c"
    )
    assert error.__notes__ == ["b is missing", "try c"]
    assert "".join(traceback.format_exception(error)).endswith("a is wrong\nb is missing\ntry c\n")


def test_a_traceback_says_what_a_field_should_hold() -> None:
    wrong = FieldError("mode", "is not a mode", "invalid", "fast, slow")
    assert wrong.sentence() == "mode is not a mode; expected: fast, slow"
    assert InvalidInput("the options are wrong", errors=[wrong]).__notes__ == [wrong.sentence()]
    assert (
        FieldError("mode", "must be fast, slow", "invalid", "fast, slow").sentence()
        == "mode must be fast, slow"
    )
