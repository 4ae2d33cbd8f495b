"""An error says each thing once."""

from __future__ import annotations

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
