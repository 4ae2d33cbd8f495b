"""Callback tokens name one attempt and their end, and only the holder of the secret can make them."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave import callback_tokens, dispatch_ids
from pipeweave.callback_tokens import Callback

SECRET = "5e" * 32
TASK_RUN = UUID("01937b3c-5d00-7000-8000-000000000001")
END = datetime(2030, 1, 1, tzinfo=UTC)
TOKEN = callback_tokens.make(SECRET, TASK_RUN, 1, END)


@given(st.integers(1, 2**31), st.datetimes(datetime(2020, 1, 1), datetime(2200, 1, 1)))
def test_a_token_names_its_attempt_and_its_end(attempt: int, moment: datetime) -> None:
    ends = moment.replace(tzinfo=UTC, microsecond=0)
    made = callback_tokens.make(SECRET, TASK_RUN, attempt, ends)
    assert callback_tokens.read(SECRET, made) == Callback(TASK_RUN, attempt, ends)


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("place", [0, -1])
def test_a_token_of_which_any_part_was_altered_is_not_read(part: int, place: int) -> None:
    parts = TOKEN.split(".")
    character = parts[part][place]
    other = "2" if character != "2" else "3"
    parts[part] = other + parts[part][1:] if place == 0 else parts[part][:-1] + other
    assert callback_tokens.read(SECRET, ".".join(parts)) is None


def test_a_token_of_another_deployment_is_not_read() -> None:
    assert callback_tokens.read("6e" * 32, TOKEN) is None


def test_a_signature_of_another_purpose_does_not_fit() -> None:
    signature = dispatch_ids.make(SECRET, TASK_RUN, 1).rpartition(".")[2]
    named = TOKEN.rpartition(".")[0]
    assert callback_tokens.read(SECRET, f"{named}.{signature}") is None
    assert dispatch_ids.read(SECRET, TOKEN) is None


@given(st.text(max_size=90))
def test_any_other_text_is_not_read(text: str) -> None:
    assert callback_tokens.read(SECRET, text) is None


def test_a_token_is_safe_in_a_path() -> None:
    assert set(TOKEN) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
