"""Heartbeats of what a process has claimed and a service has not answered yet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.dispatch.note_keeper import NoteKeeper


def test_while_postgresql_is_away_heartbeats_are_tried_at_their_pace_and_not_at_each_look() -> None:
    tried: list[Any] = []

    def run(work: Any, **_: Any) -> None:
        tried.append(work)
        raise Unavailable("PostgreSQL is away", hint="start it")

    database: Any = SimpleNamespace(run=run)
    opened: Any = SimpleNamespace(silent=lambda: ["a claim"])
    keeper = NoteKeeper(database, opened, "tick:beats:host", lambda: None, lambda: False)
    for _ in range(10):
        keeper.beat()
    assert len(tried) == 1
