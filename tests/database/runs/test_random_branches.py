"""Random pipelines with all kinds of steps and failures end as a simple model says.

Messages come in any order. Some stories lose all of them after some commit, as when processes die there: then
only what the tick finds in PostgreSQL goes on. In some, somebody pauses, resumes and cancels the run.
RANDOM_BRANCHES says how many there are, from the seed RANDOM_FROM.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from support.branch_model import ended_before, outcome_of, taken_back
from support.branch_values import End, Outcome
from support.branches import REMEDIES, random_branches
from support.factories import a_task, register
from support.failed_runs import retry
from support.forgetful import Forgetful
from support.inline_worker import InlineWorker, failing
from support.run_driver import Clock, RunDriver, store_spec
from support.told_runs import ToldRun

from pipeweave.errors import Conflict
from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.runs import rerunning
from pipeweave.orchestrator.runs.rerunning import Rerun
from pipeweave.orchestrator.store.database import Database
from pipeweave.spec import parse_spec
from pipeweave.spec.rules import FAILURE_MODES

FIRST = int(os.environ.get("RANDOM_FROM", "0"))
STORIES = int(os.environ.get("RANDOM_BRANCHES", "120"))


@pytest.fixture
def driver(database_url: str, clock: Clock) -> Iterator[RunDriver]:
    opened = Database(database_url, react=reactions_to, now=clock)
    made = RunDriver(opened)
    with made.database.transaction() as tx:
        acting = [a_task(each, retries=0, concurrency=limit) for each, limit in _LIMITS.items()]
        register(tx, made.tenant, *acting, id="acting")
        for each in REMEDIES:
            store_spec(tx, made.tenant, parse_spec(each))
    yield made
    opened.dispose()


_LIMITS = {"act": 0, "act_limited": 2}


@pytest.mark.parametrize("part", range(4))
def test_runs_with_branches_end_as_the_model_says(driver: RunDriver, clock: Clock, part: int) -> None:
    for seed in range(FIRST + part, FIRST + STORIES, 4):
        try:
            _tell(driver, clock, seed)
        except BaseException:
            print(f"seed {seed}")
            raise


def _tell(driver: RunDriver, clock: Clock, seed: int) -> None:
    mode = FAILURE_MODES[seed // 4 % len(FAILURE_MODES)]
    told = _begin(driver, clock, random.Random(seed), f"branches-{seed}", mode)
    told.loses, told.is_changed = told.chance.random() < 0.4, told.chance.random() < 0.4
    _let_end(told)
    outcome = outcome_of(told.branches, mode)
    is_cut = told.is_cancelled or (mode == "fail-fast" and bool(outcome.failures))
    _compare(told, outcome, is_cut=is_cut)


def _begin(driver: RunDriver, clock: Clock, chance: random.Random, id: str, mode: str) -> ToldRun:
    """Begin a run of a random pipeline."""
    clock.ahead *= 0
    branches = random_branches(chance, id)
    with driver.database.transaction() as tx:
        store_spec(tx, driver.tenant, branches.spec)
    fails = failing(*branches.fails)
    worker = InlineWorker(driver, fails, branches.tries, dict(branches.chooses), branches.reports, chance)
    run_id = driver.trigger(id, branches.input, failure_mode=mode)
    return ToldRun(driver, worker, clock, chance, branches, run_id)


def _let_end(told: ToldRun) -> None:
    database = told.driver.database
    react = database.react
    database.react = Forgetful(told.chance) if told.loses else react
    try:
        told.to_end()
    finally:
        database.react = react
    told.worker.consume_all()
    told.check()


# --- what came of it --------------------------------------------------------------------------------------


def _compare(told: ToldRun, outcome: Outcome, *, is_cut: bool) -> None:
    """Compare a run with the model.

    Args:
        is_cut: it has ended before steps that the model goes on with.
    """
    run, ends = told.driver.run(told.run_id), _ends(told)
    decided = "cancelled" if told.is_cancelled else outcome.decided
    is_stopped = told.is_cancelled or told.is_stopped
    if is_stopped:
        # An ending that is stopped ends well no more.
        assert run.status == ("cancelled" if decided == "completed" else decided)
    else:
        assert run.status == outcome.run_status
        assert told.output(told.run_id) == outcome.output
        assert told.calls() == +outcome.calls if not is_cut else told.calls() <= outcome.calls
    if not is_cut:
        _compare_steps(told, ends, outcome)
        named = {each["step"] for each in (run.error or {}).get("failures", ())}
        assert named == outcome.failures
    _compare_ending(told, ends, decided)


def _ends(told: ToldRun) -> Mapping[str, End]:
    """How the steps of the run ended."""
    codes = {"CONDITION_FALSE": "condition", "PREDECESSOR_FAILED": "failure", None: None}
    rows = [each for each in told.driver.task_runs(told.run_id) if each.kind != "item"]
    handled, ends = told.handled(), {}
    for row in rows:
        skipped = row.status == "skipped"
        cause, code = (codes[row.error_code], None) if skipped else (None, row.error_code)
        output = row.output if row.status == "completed" else None
        ends[row.step_id] = End(row.status, cause, None, output, code, row.step_id in handled)
    return ends


def _compare_steps(told: ToldRun, ends: Mapping[str, End], outcome: Outcome) -> None:
    maps = {each.id for each in told.branches.spec.steps if each.map is not None}
    for id, end in ends.items():
        expected = outcome.ends[id]
        compared = (end.status, end.cause, end.code, end.is_handled)
        wanted = (expected.status, expected.cause, expected.code, expected.is_handled)
        assert (id, *compared) == (id, *wanted)
        # The output of a map is that of its items.
        if id not in maps:
            assert (id, end.output) == (id, expected.output)
    letters = told.driver.rows("SELECT step_id FROM dead_letters WHERE run_id = :id", id=told.run_id)
    tolerated = {each.id for each in told.branches.spec.steps if each.continue_on_error}
    assert not {each.step_id for each in letters} & tolerated


def _compare_ending(told: ToldRun, ends: Mapping[str, End], outcome: str) -> None:
    """Compare what followed the last step, and in which order."""
    spec, parts, inner = told.branches.spec, told.ending(), told.branches.inner
    has_last = spec.finally_call is not None
    back = [each.removeprefix("compensate:") for each in parts[: len(parts) - has_last]]
    assert parts[len(back) :] == ["finally"] * has_last
    assert sorted(back) == sorted(taken_back(spec, ends) if outcome in ("failed", "cancelled") else ())
    rows = [each for each in told.driver.task_runs(told.run_id) if each.kind != "item"]
    finished = {each.step_id: each.finished_at for each in rows}
    before = ended_before(spec)
    for at, early in enumerate(back):
        assert not before[early] & set(back[:at])
        assert all(finished[early] <= finished[later] for later in back[:at])
    for part, row in zip(parts, told.parts(), strict=not told.is_stopped):
        if told.is_stopped and row.status == "cancelled":
            continue
        is_last = part == "finally"
        place = part if is_last else f"{part.removeprefix('compensate:')}.compensate"
        wanted = inner[place].seeing(outcome if is_last else "completed")
        assert (part, row.status) == (part, "completed" if wanted.is_fine else "failed")
        assert told.output(row.id) == wanted.output


# --- dead letters -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", range(2))
def test_retried_dead_letters_of_runs_with_branches_lead_to_an_end(
    driver: RunDriver, clock: Clock, part: int
) -> None:
    for seed in range(FIRST + part, FIRST + STORIES // 2, 2):
        try:
            _tell_of_retries(driver, clock, seed)
        except BaseException:
            print(f"seed {seed}")
            raise


_STOPPED = ("skipped", "cancelled")
_LETTERS = """
SELECT * FROM dead_letters
WHERE run_id = ANY(:ids) AND retried_at IS NULL AND discarded_at IS NULL ORDER BY id
"""


def _tell_of_retries(driver: RunDriver, clock: Clock, seed: int) -> None:
    """Each dead letter is retried; tasks are mended before, what the engine cannot evaluate fails again."""
    chance, mode = random.Random(f"retries {seed}"), FAILURE_MODES[seed // 2 % len(FAILURE_MODES)]
    told = _begin(driver, clock, chance, f"retries-{seed}", mode)
    _let_end(told)
    _mend(told)
    for _ in range(12):
        if not _retry_one(told):
            break
        _let_end(told)
    if not driver.rows(_LETTERS, ids=told.runs):
        assert driver.run(told.run_id).status == "completed"
        stopped = {each.error_code for each in driver.task_runs(told.run_id) if each.status in _STOPPED}
        assert stopped <= {"CONDITION_FALSE", None}


def _mend(told: ToldRun) -> None:
    told.worker.fails.clear()
    told.branches.tries.clear()
    told.branches.reports |= {each: {"of": each} for each in told.branches.reports}
    told.branches.decisions |= dict.fromkeys(told.branches.decisions, True)


def _retry_one(told: ToldRun) -> bool:
    """Retry one of the dead letters; False if none can be."""
    letters: list[Any] = told.driver.rows(_LETTERS, ids=told.runs)
    told.chance.shuffle(letters)
    for each in letters:
        # What was a part of an ending, or of a step that has gone on without it, is over.
        with suppress(Conflict):
            retry(told.driver, each)
            return True
    return False


# --- reruns -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", range(2))
def test_runs_with_branches_that_run_again_end_as_before(driver: RunDriver, clock: Clock, part: int) -> None:
    for seed in range(FIRST + part, FIRST + STORIES // 4, 2):
        try:
            _tell_of_reruns(driver, clock, seed)
        except BaseException:
            print(f"seed {seed}")
            raise


def _tell_of_reruns(driver: RunDriver, clock: Clock, seed: int) -> None:
    """Nothing is mended: whatever is reused, each step comes to what it has come to before."""
    chance, mode = random.Random(f"again {seed}"), FAILURE_MODES[seed // 2 % len(FAILURE_MODES)]
    told = _begin(driver, clock, chance, f"again-{seed}", mode)
    outcome = outcome_of(told.branches, mode)
    is_cut = mode == "fail-fast" and bool(outcome.failures)
    _let_end(told)
    for _ in range(3):
        begin = chance.choice([None, *told.branches.spec.by_id])
        with suppress(Conflict):
            request = Rerun(told.run_id, begin)
            made = driver.database.run(
                lambda tx: rerunning.rerun(tx, driver.values, driver.tenant, request),  # noqa: B023
                is_one=False,
            )
            told = replace(told, run_id=made.id, signalled=set(), loses=chance.random() < 0.3)
            _let_end(told)
            _compare_rerun(told, outcome, frozenset(made.reused), is_cut=is_cut)


def _compare_rerun(told: ToldRun, outcome: Outcome, reused: frozenset[str], *, is_cut: bool) -> None:
    run, ends = told.driver.run(told.run_id), _ends(told)
    assert run.status == outcome.run_status
    assert told.output(told.run_id) == outcome.output
    if not is_cut:
        assert {id: each.status for id, each in ends.items()} == {
            id: each.status for id, each in outcome.ends.items()
        }
    # Only what the run did itself is taken back.
    wanted = taken_back(told.branches.spec, ends) - reused if outcome.decided == "failed" else set[str]()
    parts = {each.removeprefix("compensate:") for each in told.ending()}
    assert parts - {"finally"} == wanted
