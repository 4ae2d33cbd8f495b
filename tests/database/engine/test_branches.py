"""Short branches that meet again go on in one process, and are completed together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from uuid import UUID

import pytest
from support.run_driver import RunDriver, claim, header, settle
from support.stored_values import VALUES

from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.domain import failure
from pipeweave.orchestrator.domain.outbox import JoinCheck
from pipeweave.orchestrator.domain.task_run import Completion, TaskRun
from pipeweave.orchestrator.engine import branches, fast_path
from pipeweave.orchestrator.engine.release import Claimant
from pipeweave.orchestrator.runs import pausing
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.store.database import Database

DIAMOND = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
ENDS = {"a": [], "b": ["a"], "c": ["a"]}
WITH_ANOTHER = {"a": [], "x": [], "b": ["a"], "c": ["a"], "d": ["b", "c", "x"]}


@pytest.fixture
def driver(database: Database) -> Iterator[RunDriver]:
    yield RunDriver(database)


def short(_: str) -> float:
    return 0.0001


def begin(driver: RunDriver, run_id: UUID, ordinal: int = 1) -> TaskRun:
    with driver.database.transaction() as tx:
        claimed = claim(tx, run_id, ordinal)
    assert claimed is not None
    return claimed


def go_on(
    driver: RunDriver,
    run_id: UUID,
    ended: Sequence[TaskRun],
    usual_seconds: Callable[[str], float | None] = short,
) -> list[str]:
    """The ids of the steps that go on here, once these have ended."""
    return [each.step_id for each in _go_on(driver, run_id, ended, usual_seconds)]


def _go_on(
    driver: RunDriver,
    run_id: UUID,
    ended: Sequence[TaskRun],
    usual_seconds: Callable[[str], float | None] = short,
) -> list[TaskRun]:
    with driver.database.statements() as tx:
        run = header(tx, run_id)
        completions = [Completion(each, VALUES.keep({"by": each.step_id})) for each in ended]
        assert fast_path.applies_to_all(run, completions)
        claimant = Claimant("w1", ended[0].queue, usual_seconds=usual_seconds)
        gone_on = fast_path.complete_and_go_on(tx, run, completions, claimant)
    with verify.snapshot(driver.database) as tx:
        assert verify.run(tx, run_id) == []
    return gone_on


def test_short_branches_go_on_here_and_nothing_is_sent(driver: RunDriver) -> None:
    run_id = driver.begin(DIAMOND)
    driver.sent.clear()
    both = _go_on(driver, run_id, [begin(driver, run_id)])
    assert driver.statuses(run_id) == {"a": "completed", "b": "running", "c": "running", "d": "pending"}
    assert go_on(driver, run_id, both) == ["d"]
    assert driver.statuses(run_id) == {"a": "completed", "b": "completed", "c": "completed", "d": "running"}
    assert driver.sent == []
    assert len(driver.events(run_id, "task_run.started")) == 4


@pytest.mark.parametrize(
    "usual_seconds",
    [lambda _: None, lambda _: branches.TOGETHER_S],
    ids=["unknown", "together too long"],
)
def test_other_branches_have_a_message(
    driver: RunDriver, usual_seconds: Callable[[str], float | None]
) -> None:
    run_id = driver.begin(DIAMOND)
    driver.sent.clear()
    assert go_on(driver, run_id, [begin(driver, run_id)], usual_seconds) == ["b"]
    assert driver.released(run_id) == [3]


def test_branches_that_do_not_meet_have_a_message(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": ["a"], "c": ["a"], "d": ["b"], "e": ["c"]})
    driver.sent.clear()
    assert go_on(driver, run_id, [begin(driver, run_id)]) == ["b"]
    assert driver.released(run_id) == [3]


def test_branches_that_are_end_steps_end_their_run_together(driver: RunDriver) -> None:
    run_id = driver.begin(ENDS)
    both = _go_on(driver, run_id, [begin(driver, run_id)])
    assert go_on(driver, run_id, both) == []
    assert driver.run(run_id).status == "completed"
    assert len(driver.events(run_id, "run.completed")) == 1


def test_a_join_waits_for_a_branch_that_goes_on_elsewhere(driver: RunDriver) -> None:
    run_id = driver.begin(WITH_ANOTHER)
    both = _go_on(driver, run_id, [begin(driver, run_id)])
    assert go_on(driver, run_id, both) == []
    assert driver.statuses(run_id)["d"] == "pending"
    ordinal = [each.step_id for each in driver.task_runs(run_id)].index("x") + 1
    assert go_on(driver, run_id, [begin(driver, run_id, ordinal)]) == ["d"]


def test_a_paused_run_goes_on_with_no_branch(driver: RunDriver) -> None:
    run_id = driver.begin(DIAMOND)
    first = begin(driver, run_id)
    with driver.database.transaction() as tx:
        pausing.pause(tx, driver.tenant, run_id)
    assert go_on(driver, run_id, [first]) == []
    assert driver.statuses(run_id) == {"a": "completed", "b": "ready", "c": "ready", "d": "pending"}


@pytest.mark.parametrize("needs", [DIAMOND, ENDS], ids=["a join", "the end"])
def test_where_one_branch_was_taken_away_nothing_follows_before_it_ends_again(
    driver: RunDriver, needs: dict[str, list[str]]
) -> None:
    """The results of the others are stored, and a check of what follows is sent."""
    run_id = driver.begin(needs)
    b, c = _go_on(driver, run_id, [begin(driver, run_id)])
    with driver.database.transaction() as tx:
        settle(tx, c, failure=failure.lost("its worker is gone"))
        [again] = claiming.start(tx, run_id, [c.ordinal], 2, worker="w2")
    driver.sent.clear()
    assert go_on(driver, run_id, [b, c]) == []
    [check] = [each for each in driver.sent if isinstance(each, JoinCheck)]
    driver.check(run_id, check.join)
    assert driver.statuses(run_id) | {"d": "pending"} == dict(DIAMOND) | {
        "a": "completed",
        "b": "completed",
        "c": "running",
        "d": "pending",
    }
    with driver.database.transaction() as tx:
        settle(tx, again, output=1)
    assert driver.statuses(run_id).get("d", "queued") == "queued"
    assert driver.run(run_id).status == ("running" if "d" in needs else "completed")


def test_a_result_that_comes_twice_counts_once(driver: RunDriver) -> None:
    run_id = driver.begin(DIAMOND)
    both = _go_on(driver, run_id, [begin(driver, run_id)])
    assert go_on(driver, run_id, both) == ["d"]
    driver.sent.clear()
    assert go_on(driver, run_id, both) == []
    assert driver.sent == []
    assert len(driver.events(run_id, "task_run.completed")) == 3
