"""When a server process of the API has itself replaced."""

from __future__ import annotations

import logging

import pytest

from pipeweave.api.server.memory import ServerMemory

MB = 10**6


def looks(*sizes_mb: int | None, limit_mb: int = 300) -> tuple[list[bool], int]:
    """What each look at a process of these sizes says, and how often it was replaced."""
    sizes = iter([None if each is None else each * MB for each in sizes_mb])
    replaced: list[None] = []
    memory = ServerMemory(limit_mb * MB, lambda: replaced.append(None), lambda: next(sizes))
    return [memory.look() for _ in sizes_mb], len(replaced)


def test_a_process_that_has_grown_beyond_its_cap_is_replaced_once() -> None:
    assert looks(90, 299, 301) == ([True, True, False], 1)


def test_a_process_that_began_beyond_its_cap_is_left_alone_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        assert looks(310, 320, 330) == ([True, True, True], 0)
    assert [each.message for each in caplog.records] == ["api.memory_cap_low"]


def test_where_memory_cannot_be_measured_nothing_happens() -> None:
    assert looks(None, None) == ([True, True], 0)
