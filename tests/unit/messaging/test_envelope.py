"""What a message says of itself."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave.orchestrator.messaging.envelope import encode, list_key, sent_at


@given(st.floats(0, 4e9))
def test_a_message_says_to_the_millisecond_when_it_was_sent(now: float) -> None:
    assert 0 <= now - sent_at(encode("t", "id", (), "q", 0, now)) < 0.002


@given(st.binary() | st.text())
def test_anything_may_wait_in_a_queue(message: bytes | str) -> None:
    assert sent_at(message) == 0


@pytest.mark.parametrize(
    "headers", [{}, {"sent": None}, {"sent": "1"}, {"sent": True}, {"sent": -1}, [], None]
)
def test_a_message_without_a_time_of_ours_was_sent_at_no_known_time(headers: object) -> None:
    assert sent_at(json.dumps({"headers": headers})) == 0
    assert sent_at(json.dumps({"headers": {"sent": 10**30}})) == 0
    assert sent_at("[" * 100_000) == 0


def test_each_level_of_a_queue_is_a_list() -> None:
    assert len({list_key("q", level) for level in (0, 3, 6, 9)}) == 4
    assert list_key("q", 0) == "q"


def test_two_copies_of_a_message_differ_by_their_tag_alone() -> None:
    first, second = (json.loads(encode("t", "id", (1,), "q", 6, 5.0)) for _ in range(2))
    tags = [each["properties"].pop("delivery_tag") for each in (first, second)]
    assert first == second
    assert tags[0] != tags[1]
