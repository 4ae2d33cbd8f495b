"""A look through history ends at its bounds, and says where."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.reading.scanning import MAX_SECONDS, MOST_ROWS, SLICE, scan

HISTORY = [ids.first_id_at(stamp) for stamp in range(50_000, 0, -1)]
NOTHING_MORE = {"items": [], "nextCursor": None}


def behind(after: UUID | None) -> Sequence[UUID]:
    begin = 0 if after is None else HISTORY.index(after) + 1
    return HISTORY[begin : begin + SLICE]


def none(looked_at: Sequence[UUID], most: int) -> Sequence[UUID]:
    return []


def test_it_ends_when_it_has_as_many_as_were_wanted() -> None:
    wished = {HISTORY[3], HISTORY[700], HISTORY[900]}
    found = scan(None, 2, behind, lambda ids, most: [each for each in ids if each in wished][:most])
    assert found.rows == [HISTORY[3], HISTORY[700]]
    assert (found.number, found.is_over) == (2 * SLICE, True)


def test_it_ends_after_so_many_rows_and_says_how_far_back_it_came() -> None:
    found = scan(None, 2, behind, none, clock=lambda: 0.0)
    told = found.answer(NOTHING_MORE, "runs")
    assert (found.number, found.is_over, told["scanned"]) == (MOST_ROWS, False, MOST_ROWS)
    assert told["scannedTo"] == "1970-01-01T00:00:30.001Z"
    assert told["nextCursor"] is not None


def test_it_ends_when_its_time_is_over_but_looks_at_one_slice_at_least() -> None:
    ticks = count(step=MAX_SECONDS)
    found = scan(None, 2, behind, none, clock=lambda: float(next(ticks)))
    assert (found.number, found.is_over) == (SLICE, False)


def test_a_look_to_the_end_of_the_history_has_nothing_to_go_on_with() -> None:
    found = scan(HISTORY[-10], 2, behind, none)
    assert (found.number, found.is_over) == (9, True)
    told = found.answer(NOTHING_MORE, "runs")
    assert (told["nextCursor"], told["scannedTo"], told["scanned"]) == (None, None, 9)


def test_a_full_page_goes_on_behind_its_last_row() -> None:
    found = scan(None, 2, behind, lambda ids, most: ids[:most])
    told = found.answer({"items": [1], "nextCursor": "behind it"}, "runs")
    assert (told["nextCursor"], told["scannedTo"]) == ("behind it", None)
