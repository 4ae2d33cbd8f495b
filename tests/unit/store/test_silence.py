"""When a connection counts as silent. tests/database/store/test_silence.py has real ones."""

from __future__ import annotations

import pytest

from pipeweave.orchestrator.store.other_end import ServerActivity, finding_of
from pipeweave.orchestrator.store.silence import (
    AGAIN_AFTER_S,
    ASK_AFTER_S,
    ASK_EVERY_S,
    UNKNOWN_FOR_S,
    Suspicion,
)

BEGAN = 1000.0


def after(seconds: float, *findings: ServerActivity, moved: int = 7) -> bool:
    """Whether the last of these findings, so many seconds after the wait began, confirms the suspicion."""
    suspicion = Suspicion(1, BEGAN, BEGAN)
    *before, last = findings
    for each in before:
        assert not suspicion.is_confirmed(each, 7, BEGAN + seconds)
    return suspicion.is_confirmed(last, moved, BEGAN + seconds)


def test_who_is_found_silent_twice_in_a_row_is_silent() -> None:
    assert not after(3, ServerActivity.SILENT)
    assert after(3, ServerActivity.SILENT, ServerActivity.SILENT)
    assert not after(3, ServerActivity.SILENT, ServerActivity.EXECUTING, ServerActivity.SILENT)
    assert not after(3, ServerActivity.SILENT, ServerActivity.UNKNOWN, ServerActivity.SILENT)


def test_a_connection_that_still_carries_bytes_is_not_silent() -> None:
    assert not after(3, ServerActivity.SILENT, ServerActivity.SILENT, moved=8)


def test_what_is_executed_may_take_for_ever() -> None:
    assert not after(1_000_000, ServerActivity.EXECUTING, ServerActivity.EXECUTING)


def test_where_the_server_cannot_be_asked_an_answer_may_take_long_but_not_for_ever() -> None:
    assert not after(UNKNOWN_FOR_S - 1, ServerActivity.UNKNOWN, ServerActivity.UNKNOWN)
    assert after(UNKNOWN_FOR_S, ServerActivity.UNKNOWN)


@pytest.mark.parametrize(
    ("waited", "finding", "pause"),
    [
        (ASK_AFTER_S, ServerActivity.EXECUTING, ASK_AFTER_S),
        (3600.0, ServerActivity.EXECUTING, ASK_EVERY_S),
        (3600.0, ServerActivity.SILENT, AGAIN_AFTER_S),
    ],
)
def test_the_longer_it_executes_the_rarer_the_server_is_asked(
    waited: float, finding: ServerActivity, pause: float
) -> None:
    suspicion = Suspicion(1, BEGAN, BEGAN)
    suspicion.is_confirmed(finding, 0, BEGAN + waited)
    assert suspicion.ask_at == BEGAN + waited + pause


@pytest.mark.parametrize(
    ("state", "age", "is_direct", "finding"),
    [
        ("active", 60.0, True, ServerActivity.EXECUTING),
        ("idle", 60.0, True, ServerActivity.SILENT),
        ("idle in transaction", 60.0, True, ServerActivity.SILENT),
        ("disabled", 60.0, True, ServerActivity.UNKNOWN),
        (None, None, True, ServerActivity.SILENT),  # there is no such session
        ("active", 1.0, True, ServerActivity.SILENT),  # it began since, under the number of one that is gone
        ("active", 60.0, False, ServerActivity.UNKNOWN),  # a pooler's number
        (None, None, False, ServerActivity.UNKNOWN),
    ],
)
def test_what_the_server_does_for_a_session_says_whether_an_answer_will_come(
    state: str | None, age: float | None, is_direct: bool, finding: ServerActivity
) -> None:
    assert finding_of(3.0, state, age, is_direct) is finding
