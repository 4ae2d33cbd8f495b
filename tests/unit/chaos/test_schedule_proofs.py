"""The fault test's proofs about schedules see what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from chaos import schedule_proofs, schedules
from chaos.evidence import Evidence
from chaos.records import Fire, Records, Run
from chaos.schedules import Scheduled

DUE = (1_000, 3_000, 5_000)
Spoil = Callable[[Records], object]


def a_run(number: int, status: str = "completed") -> Run:
    return Run(f"r{number}", f"schedule:s:{number}", "scheduled", "fail-fast", status, number, number + 1.5)


def evidence(policy: str = "skip") -> Evidence:
    """A schedule of which two times started runs, and the one between them was skipped."""
    runs = {each.id: each for each in (a_run(1), a_run(5))}
    fires = [
        Fire("s", 1_000, "fired", "r1"),
        Fire("s", 3_000, "skipped", None),
        Fire("s", 5_000, "fired", "r5"),
    ]
    records = Records(runs, {}, {}, [], {}, fires=fires)
    planned = list(schedules.planned_runs(records))
    accepted = schedules.accepted(records)
    return Evidence(planned, accepted, records, [], schedules=[Scheduled("s", policy, DUE[0], DUE[-1])])


def found(seen: Evidence) -> set[str]:
    proofs = (
        schedule_proofs.every_due_time_was_decided_about_once,
        schedule_proofs.every_time_that_fired_has_one_run,
        schedule_proofs.scheduled_runs_overlap_only_where_they_may,
    )
    return {proof.__name__ for proof in proofs if list(proof(seen))}


def test_nothing_contradicts_where_all_is_well() -> None:
    assert found(evidence()) == set()
    assert {each.token for each in evidence().planned_runs} == {"schedule:s:1", "schedule:s:5"}


def drop(records: Records) -> None:
    del records.fires[1]


def double(records: Records) -> None:
    records.fires.append(records.fires[0])


def invent(records: Records) -> None:
    records.fires.append(Fire("s", 4_000, "skipped", None))


def wait(records: Records) -> None:
    records.fires[1] = replace(records.fires[1], outcome="waiting")


def lose(records: Records) -> None:
    del records.runs["r5"]


def orphan(records: Records) -> None:
    records.runs["r9"] = replace(a_run(9), token="schedule:s:9")


def overlap(records: Records) -> None:
    records.runs["r1"] = replace(records.runs["r1"], finished=5.5)


@pytest.mark.parametrize(
    ("spoil", "proof"),
    [
        (drop, "every_due_time_was_decided_about_once"),
        (double, "every_due_time_was_decided_about_once"),
        (double, "every_time_that_fired_has_one_run"),
        (invent, "every_due_time_was_decided_about_once"),
        (wait, "every_due_time_was_decided_about_once"),
        (lose, "every_time_that_fired_has_one_run"),
        (orphan, "every_time_that_fired_has_one_run"),
        (overlap, "scheduled_runs_overlap_only_where_they_may"),
    ],
)
def test_a_proof_sees_what_is_spoilt(spoil: Spoil, proof: str) -> None:
    seen = evidence()
    spoil(seen.records)
    assert proof in found(seen)


def test_runs_may_overlap_where_the_policy_allows_it() -> None:
    seen = evidence("allow")
    overlap(seen.records)
    assert found(seen) == set()


def test_a_newer_run_of_a_schedule_may_cancel_the_older_ones_only() -> None:
    assert evidence("cancel-old").asked_to_cancel == {"r1"}
    assert evidence("queue").asked_to_cancel == set()
