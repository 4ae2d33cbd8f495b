"""Changes that many are told are shown once, and in portions that leave room; rights are looked at once."""

from __future__ import annotations

from pipeweave.errors import Forbidden, PipeWeaveError, Unavailable
from pipeweave.orchestrator.stream import rights
from pipeweave.orchestrator.stream.told import MAX_BYTES_AT_ONCE, MOST_AT_ONCE, Told, portions


def test_what_many_are_told_is_shown_once() -> None:
    asked: list[str] = []

    def show(cursor: str, content: bytes) -> bytes:
        asked.append(cursor)
        return cursor.encode() + content

    told = Told([("a", b"1"), ("b", b"2")])
    assert [told.shown(show) for _ in range(3)] == [b"a1b2"] * 3
    assert asked == ["a", "b"]


def test_each_change_is_in_one_portion_and_none_is_too_large() -> None:
    sizes = [1] * (2 * MOST_AT_ONCE + 1) + [MAX_BYTES_AT_ONCE, MAX_BYTES_AT_ONCE * 2, 1, 1]
    given = [(2 * n, (str(n), b"x" * size)) for n, size in enumerate(sizes)]
    made = list(portions(given))
    told = [each for _, portion in made for each in portion.changes]
    assert told == [each for _, each in given]
    assert [first for first, _ in made] == [2 * int(portion.changes[0][0]) for _, portion in made]
    for _, portion in made:
        size = sum(len(content) for _, content in portion.changes)
        assert len(portion.changes) == 1 or (
            len(portion.changes) <= MOST_AT_ONCE and size <= MAX_BYTES_AT_ONCE
        )


def test_nothing_is_no_portion() -> None:
    assert list(portions([])) == []


class Right:
    """A right that can be lost, and counts how often somebody looks."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault
        self.looks = 0

    def __call__(self) -> None:
        self.looks += 1
        if self.fault is not None:
            raise self.fault


class Someone:
    """Somebody who watches by a right."""

    def __init__(self, check: Right) -> None:
        self.check = check
        self.ended: list[PipeWeaveError | None] = []

    def end(self, error: PipeWeaveError | None) -> None:
        self.ended.append(error)


def test_a_right_is_looked_at_once_for_all_who_have_it_and_ends_only_these() -> None:
    lost, held, unknown = Right(Forbidden("no more")), Right(), Right(Unavailable("away"))
    crowd = [Someone(right) for right in (lost, held, unknown, lost, held)]
    rights.end_without_right(crowd)
    assert [right.looks for right in (lost, held, unknown)] == [1, 1, 1]
    assert [each.ended for each in crowd] == [[lost.fault], [], [], [lost.fault], []]
