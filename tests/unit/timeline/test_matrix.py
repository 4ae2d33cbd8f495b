"""The short texts of a matrix, and the density of a lane."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.timeline import matrix
from pipeweave.orchestrator.timeline.density import Edges, density


def test_every_status_has_a_letter_of_its_own() -> None:
    assert set(matrix.LETTERS) == set(TaskStatus)
    assert len(set(matrix.LETTERS.values())) == len(matrix.LETTERS)


@given(st.text("cfpR", max_size=60))
def test_run_lengths_say_every_letter(letters: str) -> None:
    read, at, text = "", 0, matrix.run_lengths(letters)
    while at < len(text):
        end = at + 1
        while end < len(text) and text[end].isdigit():
            end += 1
        read += text[at] * int(text[at + 1 : end] or 1)
        at = end
    assert read == letters


def test_levels_are_letters_that_json_writes_as_they_are() -> None:
    letters = matrix.level_letters()
    assert len(letters) == len(set(letters)) == matrix.LEVELS
    assert json.dumps(letters) == f'"{letters}"'
    assert list(letters) == sorted(letters)
    assert matrix.NONE not in letters


def test_a_hundred_thousand_items_are_short() -> None:
    """The texts alone; with three failures in a thousand."""
    letters = "".join("f" if index % 333 == 0 else "c" for index in range(100_000))
    assert len(matrix.run_lengths(letters)) + len(letters) < 110_000


def test_ranges_join_neighbours_and_are_bounded() -> None:
    assert matrix.ranges([1, 2, 3, 7, 9, 10], 9) == [[1, 3], [7, 7], [9, 10]]
    assert matrix.ranges([1, 3, 5, 6], 2) == [[1, 1], [3, 3]]


# Items that began and ended at these places of a lane of eight bins.
lives = st.lists(st.tuples(st.floats(0, 7.999), st.floats(0, 7.999)).map(sorted), max_size=20)


@settings(max_examples=60)
@given(lives)
def test_a_lane_says_how_many_ran_on_average(items: list[list[float]]) -> None:
    found: dict[int, list[float]] = {}
    for begin, end in items:
        for place, sign in ((begin, 1), (end, -1)):
            edge = found.setdefault(int(place), [0, 0.0])
            edge[0] += sign
            edge[1] += sign * (1 - (place - int(place)))
    edges = [Edges(number, int(change), busy, 0) for number, (change, busy) in found.items()]
    wanted = [
        sum(max(0.0, min(end, number + 1) - max(begin, number)) for begin, end in items)
        for number in range(8)
    ]
    assert density(edges, 8).running == pytest.approx(wanted, abs=0.011)
