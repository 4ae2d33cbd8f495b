"""Dispatch ids name one attempt, and only the holder of the secret can make them."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from pipeweave import dispatch_ids

SECRET = "5e" * 32
TASK_RUN = UUID("01937b3c-5d00-7000-8000-000000000001")


@given(st.integers(1, 2**31))
def test_an_id_names_its_attempt(attempt: int) -> None:
    made = dispatch_ids.make(SECRET, TASK_RUN, attempt)
    assert dispatch_ids.read(SECRET, made) == dispatch_ids.DispatchedAttempt(TASK_RUN, attempt)


def test_an_id_of_another_attempt_or_secret_is_not_read() -> None:
    made = dispatch_ids.make(SECRET, TASK_RUN, 1)
    named, _, mac = made.rpartition(".")
    assert dispatch_ids.read("6e" * 32, made) is None
    assert dispatch_ids.read(SECRET, f"{named[:-1]}2.{mac}") is None


@given(st.text(max_size=90))
def test_any_other_text_is_not_read(text: str) -> None:
    assert dispatch_ids.read(SECRET, text) is None


def test_an_id_is_safe_in_a_path() -> None:
    made = dispatch_ids.make(SECRET, TASK_RUN, 3)
    assert set(made) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
