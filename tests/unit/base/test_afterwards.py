"""What an answer need not wait for is done when it has left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeweave import afterwards


@pytest.fixture(autouse=True)
def _no_answer_is_left_open() -> Iterator[None]:
    yield
    afterwards.finish()


def test_it_is_done_at_once_where_nobody_waits_for_an_answer() -> None:
    done: list[int] = []
    afterwards.put_off(lambda: done.append(1))
    assert done == [1]


def test_it_is_done_once_when_the_answer_has_left() -> None:
    done: list[int] = []
    afterwards.begin()
    afterwards.put_off(lambda: done.append(1))
    assert done == []
    afterwards.finish()
    afterwards.finish()
    assert done == [1]


def test_the_next_one_has_the_one_before_it_done() -> None:
    done: list[int] = []
    afterwards.begin()
    for number in range(3):
        afterwards.put_off(lambda number=number: done.append(number))  # type: ignore[misc]
    assert done == [0, 1]
    afterwards.finish()
    assert done == [0, 1, 2]


def test_an_error_is_logged_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    afterwards.begin()
    afterwards.put_off(lambda: [][1])
    afterwards.finish()
    assert "afterwards.failed" in caplog.text
