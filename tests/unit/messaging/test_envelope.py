"""What a message says of itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave import ids
from pipeweave.orchestrator.messaging.envelope import (
    JOIN_TASK,
    RUN_TASK,
    Envelope,
    UnreadableMessage,
    decode,
    encode,
    list_key,
    place_of,
    queue_of,
    sent_at,
)


@given(st.floats(0, 4e9))
def test_a_message_says_to_the_millisecond_when_it_was_sent(now: float) -> None:
    assert 0 <= now - sent_at(encode("t", "id", (), "q", 0, now)) < 0.002


@pytest.mark.parametrize(
    ("shown", "read"),
    [("charge x12", "charge x12"), ("", None), ("x" * 301, None), (["charge"], None), (5, None)],
)
def test_a_name_that_is_none_is_left_out(shown: Any, read: str | None) -> None:
    arguments = [ids.new_id().hex, 3]
    message = json.loads(encode(JOIN_TASK, "x", arguments, "q", 0, 0))
    message["headers"]["shadow"] = shown
    found = decode(json.dumps(message))
    assert isinstance(found, Envelope)
    assert found.shown == read


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


@given(
    st.lists(st.integers(1, ids.MAX_TASK_RUNS - 1), min_size=1, max_size=100),
    st.integers(1, 2**31 - 1),
    st.integers(-1, 2**31 - 1),
    st.lists(st.integers(0, ids.MAX_TASK_RUNS - 1), max_size=100),
    st.integers(0, 5),
)
def test_what_is_encoded_can_be_read(
    ordinals: list[int], attempt: int, part: int, joins: list[int], put_back: int
) -> None:
    arguments = [ids.new_id().hex, ordinals, attempt, part, joins]
    message = encode(RUN_TASK, "trun_1.1", arguments, "q", 3, 1_700_000_000.5, put_back=put_back)
    assert decode(message.encode()) == Envelope(RUN_TASK, "trun_1.1", arguments, 1_700_000_000.5, put_back)
    check = [ids.new_id().hex, joins[0] if joins else 0]
    assert decode(encode(JOIN_TASK, "x", check, "q", 0, 0)) == Envelope(JOIN_TASK, "x", check, 0.0, 0)


@given(st.text(), st.text(max_size=50), st.text(min_size=1, max_size=50))
def test_whatever_the_names_are_the_message_is_json_that_says_them(id_: str, queue: str, shown: str) -> None:
    message = json.loads(encode(RUN_TASK, id_, (), queue, 3, 1.0, shown=shown))
    headers, properties = message["headers"], message["properties"]
    assert (headers["id"], headers["root_id"], headers["shadow"]) == (id_, id_, shown)
    assert properties["correlation_id"] == id_
    assert properties["delivery_info"]["routing_key"] == queue.removeprefix("pipeweave.")


@given(st.binary() | st.text())
def test_anything_can_be_taken_from_a_queue(message: bytes | str) -> None:
    assert isinstance(decode(message), UnreadableMessage)


@pytest.mark.parametrize("level", [0, 3, 6, 9])
@pytest.mark.parametrize("queue", ["pipeweave.t.python", "pipeweave.tenant-ü.a b"])
def test_a_list_names_its_queue_and_level(queue: str, level: int) -> None:
    assert place_of(list_key(queue, level)) == (queue, level)


def test_the_queue_of_a_message_is_told_from_its_routing_key() -> None:
    assert queue_of("default.python/gpu") == queue_of("pipeweave.default.python/gpu")
    assert queue_of("default.python/gpu") == "pipeweave.default.python/gpu"
