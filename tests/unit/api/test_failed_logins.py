"""How often failed logins make the database write."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pipeweave.api.ui.failed_logins import MAX_ADDRESSES, WITHIN_S, FailedLogins
from pipeweave.errors import Unavailable
from pipeweave.orchestrator.security import audit
from pipeweave.orchestrator.store import Database


class Rows:
    """What was written: the count of each row, by its id."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.writes: list[tuple[Any, dict[str, Any]]] = []
        monkeypatch.setattr(audit, "write", lambda tx, note, before, after: self.add(note, after))
        monkeypatch.setattr(audit, "end_many", lambda database, note, after: self.add(note, after))

    def add(self, note: audit.Note, after: dict[str, Any]) -> None:
        self.writes.append((note.id, after))

    def run(self, verb: Any) -> None:
        verb(None)

    @property
    def counts(self) -> list[int]:
        return [after["failures"] for _, after in self.writes]


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Rows:
    return Rows(monkeypatch)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_thousand_failures_are_written_ten_times_into_one_row(rows: Rows) -> None:
    failed = FailedLogins(cast(Database, rows), Clock())
    for number in range(1_000):
        failed.add(f"198.51.100.{number % 200}", "req")
    assert rows.counts == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    assert len({id for id, _ in rows.writes}) == 1
    assert len(rows.writes[-1][1]["addresses"]) == MAX_ADDRESSES


def test_the_next_failure_after_ten_minutes_completes_the_row_and_begins_another(rows: Rows) -> None:
    clock = Clock()
    failed = FailedLogins(cast(Database, rows), clock)
    for _ in range(7):
        failed.add("198.51.100.1", "req")
    clock.now = WITHIN_S
    failed.add("198.51.100.2", "req")
    assert rows.counts == [1, 2, 4, 7, 1]
    assert rows.writes[-1][1]["addresses"] == ["198.51.100.2"]
    assert rows.writes[-1][0] != rows.writes[-2][0]


def test_a_failure_is_answered_also_where_its_row_cannot_be_written(
    rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any) -> None:
        raise Unavailable("PostgreSQL is away")

    monkeypatch.setattr(audit, "write", away)
    FailedLogins(cast(Database, rows), Clock()).add("198.51.100.1", "req")
