"""How long a run stood still is measured without the times in which there was a fault."""

from __future__ import annotations

import pytest

from chaos.evidence import Evidence
from chaos.faults import Injected
from chaos.notes import Note
from chaos.progress import every_run_went_on_soon, recoveries
from chaos.records import Event, Records, Run, TaskRun

FINAL = Run("r", "t", "p", "continue", "completed")


def seen(*times: float, faults: list[Injected], calls: list[tuple[float, float]] = []) -> Evidence:  # noqa: B006
    """A run with events at these times and calls from and until."""
    events = [Event("r", at, number, "task_run.queued", None, None) for number, at in enumerate(times)]
    notes = [
        Note(what, "r", f"t{number}", "work", 1, 1, at, at)
        for number, call in enumerate(calls)
        for what, at in zip(("begin", "returned"), call, strict=True)
    ]
    records = Records({"r": FINAL}, {}, {}, events, {})
    return Evidence([], {}, records, notes, faults, within_s=15)


def fault(began: float, ended: float) -> Injected:
    return Injected("postgres-away", began, began, ended)


@pytest.mark.parametrize(
    ("faults", "is_soon"),
    [
        ([], False),
        ([fault(5, 24)], True),
        ([fault(5, 14)], False),
        ([fault(11, 11), fault(25, 25)], True),
        ([fault(35, 36)], False),
    ],
)
def test_a_standstill_counts_from_the_end_of_each_fault(faults: list[Injected], is_soon: bool) -> None:
    assert (list(every_run_went_on_soon(seen(0, 10, 30, faults=faults))) == []) == is_soon


def test_a_call_under_way_is_no_standstill() -> None:
    assert list(every_run_went_on_soon(seen(0, 40, faults=[], calls=[(1, 39)]))) == []


def test_the_recovery_of_a_fault_is_that_of_its_slowest_run() -> None:
    assert recoveries(seen(0, 10, 30, faults=[fault(12, 14), fault(30.5, 31)])) == {"postgres-away": [16, 0]}


def test_a_run_that_stood_still_until_the_next_fault_does_not_count_for_the_one_before() -> None:
    faults = [fault(12, 14), fault(20, 31)]
    assert recoveries(seen(0, 10, 30, faults=faults)) == {"postgres-away": [0, 0]}


def test_who_waits_for_a_slot_of_a_limit_goes_on_with_those_who_hold_one() -> None:
    found = seen(0, 30, faults=[])
    found.records.runs["s"] = FINAL
    found.notes.extend(  # type: ignore[attr-defined]
        Note(what, "s", "t", "single", 1, 1, at, at) for what, at in (("begin", 10), ("returned", 20))
    )
    assert list(every_run_went_on_soon(found))
    waiting = TaskRun("w", "r", "step", "single", "task", None, "completed", 1, None, None, None)
    found.records.task_runs["w"] = waiting
    assert list(every_run_went_on_soon(found)) == []
