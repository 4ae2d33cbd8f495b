"""The fault test's proof about the stream sees what a client missed, and what it saw twice."""

from __future__ import annotations

import pytest

from chaos import stream_proofs
from chaos.evidence import Evidence
from chaos.records import Event, Records
from chaos.watching import Seen, Watched

STORED: list[Seen] = [
    ("a", 1, "run.created", None),
    ("b", 2, "task_run.completed", "b.1"),
    ("a", 3, "run.completed", None),
]


def contradictions(seen: list[Seen], *refused: str, stored: list[Seen] = STORED) -> list[str]:
    events = [Event(run_id, 0.0, seq, type, task_run, None) for run_id, seq, type, task_run in stored]
    evidence = Evidence(
        [], {}, Records({}, {}, {}, events, {}), [], watched=Watched(seen, 1, refused=list(refused))
    )
    return list(stream_proofs.the_stream_showed_every_event_once(evidence))


def test_every_event_once_is_fine_whatever_the_order_of_runs() -> None:
    assert contradictions(STORED) == []
    assert contradictions([STORED[1], STORED[0], STORED[2]]) == []


def test_a_signal_may_be_shown_after_what_happened_meanwhile() -> None:
    signal: Seen = ("a", 2, "run.signalled", None)
    assert contradictions([STORED[2], signal], stored=[signal, STORED[2]]) == []


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (STORED[:2], "was not shown"),
        ([*STORED, STORED[2]], "too often"),
        ([*STORED, ("a", 4, "run.failed", None)], "is not stored"),
        ([STORED[2], STORED[0], STORED[1]], "was shown after 3"),
    ],
)
def test_a_client_that_missed_or_saw_too_much_is_a_contradiction(seen: list[Seen], said: str) -> None:
    [found] = contradictions(seen)
    assert said in found


def test_a_client_that_could_not_go_on_is_a_contradiction() -> None:
    assert contradictions(STORED, "410 CURSOR_EXPIRED") == ["the client could not go on: 410 CURSOR_EXPIRED"]
