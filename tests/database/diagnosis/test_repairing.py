"""Rows that were lost or damaged become what the events say, and the run goes on to its end."""

from __future__ import annotations

import json
from collections.abc import Callable
from uuid import UUID

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.history_generator import RandomHistory
from support.inline_worker import InlineWorker
from support.run_driver import PERMANENT, RunDriver

from pipeweave import ids
from pipeweave.cli import main
from pipeweave.cli.support import audited
from pipeweave.orchestrator.diagnosis import repairing, verify
from pipeweave.orchestrator.diagnosis.repairing import RunRepair
from pipeweave.orchestrator.store.database import Database
from pipeweave.spec import StepSpec

DIAMOND = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


def differences(driver: RunDriver, run_id: UUID) -> list[verify.Difference]:
    with verify.snapshot(driver.database) as tx:
        return verify.run(tx, run_id)


def repair(driver: RunDriver, run_id: UUID) -> RunRepair:
    note = audited.note("verify", ids.show(ids.RUN, run_id))
    return repairing.repair(driver.database, run_id, note)


def change(driver: RunDriver, statement: str, run_id: UUID) -> None:
    driver.rows(f"{statement} RETURNING 1", id=run_id)


def reasons(outcome: RunRepair) -> set[str]:
    return {why for _, why in outcome.left}


# What can happen to rows without breaking a CHECK, and is determined by events.
DAMAGES = (
    "UPDATE task_runs SET status = 'pending', finished_at = NULL, queued_at = NULL WHERE run_id = :id",
    "UPDATE task_runs SET status = 'skipped', finished_at = now()"
    " WHERE run_id = :id AND status <> 'completed'",
    "UPDATE task_runs SET attempt = attempt + 3 WHERE run_id = :id",
    "UPDATE task_runs SET worker = 'nobody' WHERE run_id = :id",
    "UPDATE task_runs SET error_code = 'OTHER' WHERE run_id = :id",
    "UPDATE task_runs SET output_hash = repeat('0', 64) WHERE run_id = :id AND output_hash IS NOT NULL",
    "UPDATE task_runs SET selected_next = '{nobody}' WHERE run_id = :id",
    "UPDATE task_runs SET map_count = 7 WHERE run_id = :id",
    "UPDATE runs SET status = 'failed', error_code = 'OTHER', finished_at = now() WHERE id = :id",
    "UPDATE runs SET status = 'running', finished_at = NULL, error_code = NULL, started_at = now()"
    " WHERE id = :id",
    "DELETE FROM attempts WHERE run_id = :id",
    "UPDATE attempts SET worker = 'nobody', error_code = 'OTHER' WHERE run_id = :id",
    "INSERT INTO attempts (run_id, task_run_id, number, status, code_version, finished_at)"
    " SELECT run_id, id, 99, 'lost', 1, now() FROM task_runs WHERE run_id = :id",
    "DELETE FROM task_runs WHERE run_id = :id AND status IN ('pending', 'ready', 'queued', 'failed',"
    " 'skipped', 'cancelled') AND kind <> 'item'",
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10_000),
    steps=st.integers(0, 60),
    damages=st.lists(st.sampled_from(DAMAGES), min_size=1, max_size=4, unique=True),
)
def test_whatever_events_determine_is_restored_at_any_moment_of_any_history(
    driver: RunDriver, seed: int, steps: int, damages: list[str]
) -> None:
    history = RandomHistory(driver, seed)
    for _ in range(steps):
        if not history.step():
            break
    for each in damages:
        change(driver, each, history.run_id)
    outcome = repair(driver, history.run_id)
    assert not outcome.left
    assert differences(driver, history.run_id) == []
    history.go(80)
    assert differences(driver, history.run_id) == []


def worked_half(driver: RunDriver, **worker: object) -> tuple[InlineWorker, UUID]:
    """A run of which `a` has ended, and the worker that has its messages."""
    inline = InlineWorker(driver, **worker)  # type: ignore[arg-type]
    run_id = driver.begin(DIAMOND)
    driver.finish(run_id, "a")
    return inline, run_id


@pytest.mark.parametrize("step", ["b", "d"])
def test_a_lost_row_of_a_step_is_made_again_and_the_run_ends(driver: RunDriver, step: str) -> None:
    inline, run_id = worked_half(driver)
    before = {row.step_id: row for row in driver.task_runs(run_id)}
    change(driver, f"DELETE FROM task_runs WHERE step_id = '{step}' AND run_id = :id", run_id)
    outcome = repair(driver, run_id)
    assert [(each.field, each.stored) for each in outcome.restored] == [("row", "missing")]
    after = {row.step_id: row for row in driver.task_runs(run_id)}
    assert tuple(after[step]) == tuple(before[step])
    inline.consume_all()
    assert driver.run(run_id).status == "completed"
    assert differences(driver, run_id) == []


def test_a_row_that_is_made_again_has_the_queue_and_the_labels_of_its_step(driver: RunDriver) -> None:
    of_step = StepSpec("b", "noop", ("a",), queue="big", requires={"zone": "eu"})
    driver.store_steps(StepSpec("a", "noop"), of_step)
    run_id = driver.trigger()
    [_, before] = driver.task_runs(run_id)
    change(driver, "DELETE FROM task_runs WHERE step_id = 'b' AND run_id = :id", run_id)
    repair(driver, run_id)
    [_, after] = driver.task_runs(run_id)
    assert (after.queue_name, after.requires) == ("big", {"zone": "eu"})
    assert tuple(after) == tuple(before)


def test_a_row_is_not_made_again_for_workers_that_may_not_call_it(driver: RunDriver) -> None:
    of_step = StepSpec("b", "noop", ("a",), requires={"zone": "${steps.a.zone}"})
    driver.store_steps(StepSpec("a", "noop"), of_step)
    run_id = driver.trigger()
    lose = "DELETE FROM task_runs WHERE step_id = 'b' AND run_id = :id"
    change(driver, lose, run_id)
    assert reasons(repair(driver, run_id)) == set()
    driver.finish(run_id, "a", output={"zone": "eu"})
    assert driver.task_runs(run_id)[1].queue.endswith("+zone=eu")
    change(driver, lose, run_id)
    assert reasons(repair(driver, run_id)) == {"which labels it requires was in the row alone"}


def test_a_run_that_was_closed_by_hand_goes_on(driver: RunDriver) -> None:
    inline, run_id = worked_half(driver)
    change(driver, "UPDATE runs SET status = 'cancelled', finished_at = now() WHERE id = :id", run_id)
    repair(driver, run_id)
    assert (driver.run(run_id).status, driver.run(run_id).finished_at) == ("running", None)
    inline.consume_all()
    assert driver.run(run_id).status == "completed"


def test_a_failed_step_gets_its_error_and_its_attempts_back(driver: RunDriver) -> None:
    inline, run_id = worked_half(driver, fails={"b": PERMANENT})
    inline.consume_all()
    ended = driver.run(run_id)
    for each in (
        "DELETE FROM attempts WHERE run_id = :id",
        "UPDATE task_runs SET status = 'pending', finished_at = NULL, error = NULL, error_code = NULL"
        " WHERE step_id = 'b' AND run_id = :id",
        "UPDATE runs SET status = 'running', finished_at = NULL, error = NULL, error_code = NULL"
        " WHERE id = :id",
    ):
        change(driver, each, run_id)
    repair(driver, run_id)
    (row,) = [row for row in driver.task_runs(run_id) if row.step_id == "b"]
    assert (row.status, row.error["message"], row.error_code) == ("failed", "it broke", "BOOM")
    (attempt,) = driver.rows("SELECT * FROM attempts WHERE run_id = :id AND status = 'failed'", id=run_id)
    assert (attempt.error["message"], attempt.finished_at) == ("it broke", row.finished_at)
    run = driver.run(run_id)
    assert (run.status, run.error_code, run.finished_at) == (
        ended.status,
        ended.error_code,
        ended.finished_at,
    )


def test_what_events_do_not_have_is_left_and_the_rest_is_restored(driver: RunDriver) -> None:
    _, run_id = worked_half(driver)
    change(
        driver,
        "UPDATE task_runs SET output = '1', output_hash = NULL WHERE step_id = 'a' AND run_id = :id",
        run_id,
    )
    change(driver, "DELETE FROM task_runs WHERE step_id = 'd' AND run_id = :id", run_id)
    outcome = repair(driver, run_id)
    assert reasons(outcome) == {"its result is not in the row any more"}
    assert [each.field for each in differences(driver, run_id)] == ["output_hash"]


def test_a_lost_result_cannot_be_made(driver: RunDriver) -> None:
    run_id = driver.begin({"a": [], "b": ["a"]})
    driver.finish(run_id, "a", output={"n": 1})
    change(driver, "DELETE FROM task_runs WHERE step_id = 'a' AND run_id = :id", run_id)
    assert reasons(repair(driver, run_id)) == {"its result was in the row alone"}
    assert len(driver.task_runs(run_id)) == 1


def test_nothing_is_restored_from_events_that_contradict_each_other(driver: RunDriver) -> None:
    _, run_id = worked_half(driver)
    change(driver, "DELETE FROM events WHERE type = 'task_run.started' AND run_id = :id", run_id)
    change(driver, "UPDATE task_runs SET attempt = 5 WHERE run_id = :id", run_id)
    outcome = repair(driver, run_id)
    assert (outcome.restored, reasons(outcome)) == ([], {"its events contradict each other"})
    assert {row.attempt for row in driver.task_runs(run_id)} == {5}


def test_a_repair_is_an_event_and_audited_and_a_second_one_is_neither(driver: RunDriver) -> None:
    _, run_id = worked_half(driver)
    change(driver, "UPDATE task_runs SET attempt = 5 WHERE run_id = :id", run_id)
    assert len(repair(driver, run_id).restored) == 4
    assert repair(driver, run_id) == RunRepair(run_id)
    (event,) = driver.events(run_id, "run.repaired")
    assert (event.data["differences"], event.data["rows"], "@" in event.data["by"]) == (4, 4, True)
    (row,) = driver.rows("SELECT * FROM audit WHERE object = :id", id=ids.show(ids.RUN, run_id))
    assert (row.verb, row.kind, row.after) == ("verify", "run", {"restored": 4, "left": 0})


def test_only_to_look_changes_nothing(driver: RunDriver) -> None:
    _, run_id = worked_half(driver)
    change(driver, "UPDATE task_runs SET attempt = 5 WHERE run_id = :id", run_id)
    assert len(repairing.repair(driver.database, run_id, None).restored) == 4
    assert len(differences(driver, run_id)) == 4


# --- the command ------------------------------------------------------------------------------------------


@pytest.fixture
def call(driver: RunDriver) -> Callable[..., Result]:
    def call(run_id: UUID, *options: str) -> Result:
        arguments = ["verify", ids.show(ids.RUN, run_id), "--database-url", driver.database.url, *options]
        return CliRunner().invoke(main, arguments)

    return call


def test_the_command_looks_then_restores_then_finds_nothing(
    driver: RunDriver, call: Callable[..., Result]
) -> None:
    _, run_id = worked_half(driver)
    change(driver, "UPDATE task_runs SET attempt = 5 WHERE step_id = 'd' AND run_id = :id", run_id)
    looked = call(run_id, "--repair")
    assert (looked.exit_code, "stored 5, rebuilt 1; can be restored" in looked.stdout) == (1, True)
    assert len(differences(driver, run_id)) == 1
    done = call(run_id, "--repair", "--apply", "--json")
    assert (done.exit_code, json.loads(done.stdout)["differences"][0]["repair"]) == (0, "restored")
    assert call(run_id).exit_code == 0


def test_the_command_fails_for_what_is_left(driver: RunDriver, call: Callable[..., Result]) -> None:
    _, run_id = worked_half(driver)
    change(
        driver,
        "UPDATE task_runs SET output = '1', output_hash = NULL WHERE step_id = 'a' AND run_id = :id",
        run_id,
    )
    left = call(run_id, "--repair", "--apply")
    assert (left.exit_code, "left: its result is not in the row any more" in left.stdout) == (1, True)
    assert call(run_id, "--apply").exit_code == 2
