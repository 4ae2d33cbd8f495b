"""The fault test's proofs about enqueued runs and about what follows ends see what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from chaos import cause_proofs
from chaos.bystanders import LONGEST_READ, LONGEST_WITHOUT_TICK
from chaos.evidence import Evidence
from chaos.faults import Injected
from chaos.notes import Note
from chaos.records import HookFire, OddRow, Records, Run

Spoil = Callable[[Evidence], Evidence]
CAUSE, FOLLOWER = "prun_cause", "prun_follower"


def evidence() -> Evidence:
    """An enqueued run that ended, its hook that was answered, its follower, and a row that was refused."""
    runs = {
        CAUSE: Run(CAUSE, "enqueued-1-0", "enqueued", "fail-fast", "completed", 100.0, 101.0),
        FOLLOWER: Run(FOLLOWER, f"event:{CAUSE}", "following", "fail-fast", "completed", 102.0, 103.0),
    }
    records = Records(
        *(runs, {}, {}, [], {}),
        hook_fires=[HookFire("fire", CAUSE, "fired", 1)],
        odd_rows=[OddRow("prun_odd", is_settled=True, error_code="INVALID_INPUT")],
    )
    note = Note("begin", "r", "t", "work", 1, 1, 0.0, 0.0)
    return Evidence([], {}, records, [note], hook_calls={"fire": 1})


def found(seen: Evidence) -> set[str]:
    proofs = (
        cause_proofs.every_row_that_nobody_can_read_was_refused,
        cause_proofs.every_end_called_its_hook,
        cause_proofs.every_end_started_its_run_soon,
        cause_proofs.nobody_waited_whom_a_fault_did_not_concern,
    )
    return {proof.__name__ for proof in proofs if list(proof(seen))}


def test_nothing_contradicts_where_all_is_well() -> None:
    assert found(evidence()) == set()


def with_fire(seen: Evidence, *fires: HookFire) -> Evidence:
    return replace(seen, records=replace(seen.records, hook_fires=list(fires)))


def late(seen: Evidence, seconds: float) -> Evidence:
    run = seen.records.runs[FOLLOWER]
    moved = replace(run, created=run.created + seconds)
    return replace(seen, records=replace(seen.records, runs={**seen.records.runs, FOLLOWER: moved}))


SPOILED: dict[str, tuple[Spoil, str]] = {
    "an end without a fire": (with_fire, "every_end_called_its_hook"),
    "two fires of an end": (
        lambda seen: with_fire(seen, *seen.records.hook_fires, HookFire("other", CAUSE, "waiting", 1)),
        "every_end_called_its_hook",
    ),
    "a fire that nobody got": (lambda seen: replace(seen, hook_calls={}), "every_end_called_its_hook"),
    "a fire that was never tried": (
        lambda seen: with_fire(seen, HookFire("fire", CAUSE, "waiting", 0)),
        "every_end_called_its_hook",
    ),
    "a row that waits": (
        lambda seen: replace(
            seen, records=replace(seen.records, odd_rows=[OddRow("x", is_settled=False, error_code=None)])
        ),
        "every_row_that_nobody_can_read_was_refused",
    ),
    "a row that became a run": (
        lambda seen: replace(
            seen, records=replace(seen.records, odd_rows=[OddRow(CAUSE, is_settled=True, error_code="X")])
        ),
        "every_row_that_nobody_can_read_was_refused",
    ),
    "a read that waited for a store": (
        lambda seen: replace(
            seen, faults=[Injected("storage-hangs", 1.0, 1.0, 9.0, more={LONGEST_READ: 6_000})]
        ),
        "nobody_waited_whom_a_fault_did_not_concern",
    ),
    "a tick that waited for a hook": (
        lambda seen: replace(
            seen, faults=[Injected("hooks-hang", 1.0, 1.0, 9.0, more={LONGEST_WITHOUT_TICK: 9_000})]
        ),
        "nobody_waited_whom_a_fault_did_not_concern",
    ),
    "a follower that came late": (lambda seen: late(seen, 20.0), "every_end_started_its_run_soon"),
}


@pytest.mark.parametrize("spoiled", SPOILED)
def test_what_is_wrong_is_seen(spoiled: str) -> None:
    spoil, proof = SPOILED[spoiled]
    assert found(spoil(evidence())) == {proof}


@pytest.mark.parametrize(
    ("kind", "is_excused"), [("postgres-away", True), ("hooks-hang", False), ("storage-hangs", False)]
)
def test_only_faults_of_servers_excuse_a_follower_that_comes_late(kind: str, is_excused: bool) -> None:
    fault = Injected(kind, 0.0, 101.0, 121.0)
    seen = replace(late(evidence(), 20.0), faults=[fault])
    assert (found(seen) == set()) is is_excused
