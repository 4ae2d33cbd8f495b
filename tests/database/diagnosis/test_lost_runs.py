"""The row of a run that is lost is made anew where events, another run or an archive say enough; dead letters
come back where that is asked for.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner, Result
from support.concurrency import wait_for_lock
from support.inline_worker import InlineWorker
from support.run_driver import PERMANENT, RunDriver

from pipeweave import ids
from pipeweave.cli import main
from pipeweave.cli.support import audited
from pipeweave.errors import Conflict, NotFound
from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.diagnosis import repairing, verify
from pipeweave.orchestrator.diagnosis.repairing import RunRepair
from pipeweave.orchestrator.domain.months import Month
from pipeweave.orchestrator.retention import archive
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.store.database import Database
from pipeweave.spec import StepSpec
from pipeweave.storage import LocalStorage

DIAMOND = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
# What of a run's row neither events nor these runs have.
COLUMNS = (
    "id, tenant_id, pipeline_id, pipeline_version, status, failure_mode, input, inputs_hash, task_run_count,"
    " created_at, started_at, triggered_kind, triggered_id, error_code"
)


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


def repair(driver: RunDriver, run_id: UUID, **options: Any) -> RunRepair:
    note = audited.note("verify", ids.show(ids.RUN, run_id))
    return repairing.repair(driver.database, run_id, note, **options)


def row_of(driver: RunDriver, run_id: UUID) -> Any:
    return driver.rows(f"SELECT {COLUMNS} FROM runs WHERE id = :id", id=run_id)


def lose(driver: RunDriver, run_id: UUID) -> None:
    driver.rows("DELETE FROM runs WHERE id = :id RETURNING 1", id=run_id)


def differences(driver: RunDriver, run_id: UUID) -> list[verify.Difference]:
    with verify.snapshot(driver.database) as tx:
        return verify.run(tx, run_id)


@pytest.mark.parametrize("input", [None, {}])
def test_a_lost_run_without_an_input_is_made_anew_and_goes_on_to_its_end(
    driver: RunDriver, input: Any
) -> None:
    inline = InlineWorker(driver)
    run_id = driver.begin(DIAMOND, input)
    driver.finish(run_id, "a")
    before = row_of(driver, run_id)
    lose(driver, run_id)
    outcome = repair(driver, run_id)
    assert [(each.field, each.stored, each.rebuilt) for each in outcome.restored] == [
        ("row", "missing", "running")
    ]
    assert "without its priority, metadata" in outcome.unset
    assert row_of(driver, run_id) == before
    assert repair(driver, run_id) == RunRepair(run_id)
    inline.consume_all()
    assert driver.run(run_id).status == "completed"
    assert differences(driver, run_id) == []


def test_an_input_is_known_by_its_hash_from_another_run_of_the_pipeline(driver: RunDriver) -> None:
    run_id = driver.begin(DIAMOND, {"day": "monday"})
    before = row_of(driver, run_id)
    lose(driver, run_id)
    with pytest.raises(Conflict, match="its input was in the row alone"):
        repair(driver, run_id)
    driver.trigger(input={"day": "tuesday"})
    driver.trigger(input={"day": "monday"})
    assert not repair(driver, run_id).left
    assert row_of(driver, run_id) == before


def test_a_lost_run_is_made_with_lost_rows_of_its_steps(driver: RunDriver) -> None:
    inline = InlineWorker(driver)
    run_id = driver.begin(DIAMOND)
    driver.finish(run_id, "a")
    driver.rows("DELETE FROM task_runs WHERE step_id = 'd' AND run_id = :id RETURNING 1", id=run_id)
    lose(driver, run_id)
    assert [each.field for each in repair(driver, run_id).restored] == ["row", "row"]
    inline.consume_all()
    assert (driver.run(run_id).status, differences(driver, run_id)) == ("completed", [])


def test_a_failed_run_gets_its_error_and_its_end_back(driver: RunDriver) -> None:
    inline = InlineWorker(driver, fails={"b": PERMANENT})
    run_id = driver.begin(DIAMOND)
    inline.consume_all()
    before = driver.run(run_id)
    lose(driver, run_id)
    repair(driver, run_id)
    after = driver.run(run_id)
    assert (after.status, after.error_code, after.finished_at) == (
        "failed",
        before.error_code,
        before.finished_at,
    )
    assert differences(driver, run_id) == []


def test_all_that_lacks_is_named_at_once_and_nothing_is_written(driver: RunDriver) -> None:
    run_id = driver.begin(DIAMOND, {"secret": 1})
    for table in ("task_runs", "attempts"):
        driver.rows(f"DELETE FROM {table} WHERE run_id = :id RETURNING 1", id=run_id)
    lose(driver, run_id)
    with pytest.raises(Conflict, match="no row is left that names its tenant"):
        repair(driver, run_id)
    driver.rows("DELETE FROM events WHERE type = 'run.created' AND run_id = :id RETURNING 1", id=run_id)
    with pytest.raises(Conflict, match="no event created it"):
        repair(driver, run_id)
    driver.rows("DELETE FROM events WHERE run_id = :id RETURNING 1", id=run_id)
    with pytest.raises(NotFound):
        repair(driver, run_id)
    assert row_of(driver, run_id) == []


def test_only_to_look_makes_no_row(driver: RunDriver) -> None:
    run_id = driver.begin(DIAMOND)
    lose(driver, run_id)
    assert len(repairing.repair(driver.database, run_id, None).restored) == 1
    assert row_of(driver, run_id) == []


def test_of_two_who_restore_at_once_one_does_and_the_other_finds_nothing(driver: RunDriver) -> None:
    run_id = driver.begin(DIAMOND)
    before = row_of(driver, run_id)
    lose(driver, run_id)
    outcomes: list[RunRepair] = []
    both = threading.Barrier(2)

    def work() -> None:
        both.wait()
        outcomes.append(repair(driver, run_id))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(len(each.restored) for each in outcomes) == [0, 1]
    assert row_of(driver, run_id) == before
    assert len(driver.events(run_id, "run.repaired")) == 1


def test_a_run_that_moves_meanwhile_is_repaired_as_it_is_then(driver: RunDriver) -> None:
    """The repair waits for the row of the run, and its first look is older than what it waited for."""
    run_id = driver.begin(DIAMOND)
    driver.rows(
        "UPDATE task_runs SET attempt = 5 WHERE step_id = 'd' AND run_id = :id RETURNING 1", id=run_id
    )
    thread = threading.Thread(target=lambda: repair(driver, run_id))
    with driver.database.transaction() as tx:
        triggering.cancel(tx, driver.tenant, run_id)
        thread.start()
        wait_for_lock(driver.database)
    thread.join()
    assert driver.run(run_id).status == "cancelled"
    assert differences(driver, run_id) == []


# --- archives ---------------------------------------------------------------------------------------------


def test_an_archive_of_its_month_has_the_input_of_a_lost_run(
    isolated_driver: RunDriver, tmp_path: Path
) -> None:
    driver = isolated_driver
    run_id = driver.begin(DIAMOND, {"day": "monday"})
    before = row_of(driver, run_id)
    storage = LocalStorage(tmp_path)
    archive.archive_month(driver.database, storage, Month.of_id(run_id))
    lose(driver, run_id)
    document = archive.find_run(storage, run_id)
    outcome = repair(driver, run_id, archived=document)
    assert "which archives do not have" in outcome.unset
    assert row_of(driver, run_id) == before
    assert archive.find_run(storage, ids.run_id_of(ids.new_id())) is None


# --- dead letters -----------------------------------------------------------------------------------------

_LETTER = (
    "run_id, task_run_id, step_id, task_id, kind, map_index, code_version, attempts, status, input, item,"
)
_LETTER += " error_code, fingerprint, failed_at, error ->> 'message'"


def letters(driver: RunDriver, run_id: UUID) -> list[Any]:
    return driver.rows(
        f"SELECT {_LETTER} FROM dead_letters WHERE run_id = :id ORDER BY task_run_id", id=run_id
    )


def test_dead_letters_that_are_gone_come_back_as_they_were_and_can_be_retried(driver: RunDriver) -> None:
    inline = InlineWorker(driver, fails={"b": PERMANENT, "m": PERMANENT})
    run_id = driver.begin({"a": [], "b": ["a"], "m": ["a"]}, maps={"m": [1, 2]}, failureMode="continue")
    inline.consume_all()
    before = letters(driver, run_id)
    assert len(before) == 3, "the map itself has none"
    driver.rows("DELETE FROM dead_letters WHERE run_id = :id RETURNING 1", id=run_id)
    assert repair(driver, run_id) == RunRepair(run_id), "that they are gone is no sign of damage"
    outcome = repair(driver, run_id, has_letters=True)
    assert [(each.field, each.rebuilt) for each in outcome.restored] == [("dead_letter", "open")] * 3
    assert letters(driver, run_id) == before
    assert repair(driver, run_id, has_letters=True) == RunRepair(run_id)
    [id] = driver.rows("SELECT id FROM dead_letters WHERE run_id = :id AND step_id = 'b'", id=run_id)
    with driver.database.transaction() as tx:
        dead_letters.retry(tx, driver.tenant, id.id)
    assert driver.run(run_id).status == "running"
    assert differences(driver, run_id) == []


def test_a_dead_letter_that_was_discarded_or_retried_does_not_come_back(driver: RunDriver) -> None:
    inline = InlineWorker(driver, fails={"b": PERMANENT})
    run_id = driver.begin({"a": [], "b": ["a"], "c": ["a"]}, failureMode="continue")
    inline.consume_all()
    [letter] = driver.rows("SELECT id FROM dead_letters WHERE run_id = :id", id=run_id)
    with driver.database.transaction() as tx:
        dead_letters.discard(tx, driver.tenant, letter.id)
    assert repair(driver, run_id, has_letters=True) == RunRepair(run_id)


def test_what_is_tolerated_has_no_dead_letter(driver: RunDriver) -> None:
    driver.store_steps(StepSpec("a", "noop", continue_on_error=True), StepSpec("b", "noop", ("a",)))
    inline = InlineWorker(driver, fails={"a": PERMANENT})
    run_id = driver.trigger()
    inline.consume_all()
    assert letters(driver, run_id) == []
    assert repair(driver, run_id, has_letters=True) == RunRepair(run_id)


# --- the command ------------------------------------------------------------------------------------------


@pytest.fixture
def call(driver: RunDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.setenv("PIPEWEAVE_DATA_DIR", str(tmp_path))

    def call(run_id: UUID, *options: str) -> Result:
        arguments = ["verify", ids.show(ids.RUN, run_id), "--database-url", driver.database.url, *options]
        return CliRunner().invoke(main, arguments)

    return call


def test_the_command_looks_and_restores_a_lost_run_and_says_what_it_has_not(
    driver: RunDriver, call: Callable[..., Result]
) -> None:
    run_id = driver.begin(DIAMOND)
    lose(driver, run_id)
    looked = call(run_id, "--repair")
    assert (looked.exit_code, row_of(driver, run_id)) == (1, [])
    assert "row: stored missing, rebuilt running; can be restored, without its priority" in looked.stdout
    done = call(run_id, "--repair", "--apply", "--json")
    assert (done.exit_code, json.loads(done.stdout)["differences"][0]["field"]) == (0, "row")
    assert call(run_id).exit_code == 0


def test_the_command_refuses_in_one_line_with_all_that_lacks(
    driver: RunDriver, call: Callable[..., Result]
) -> None:
    run_id = driver.begin(DIAMOND, {"only": "here"})
    lose(driver, run_id)
    refused = call(run_id, "--repair", "--apply")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "cannot be made of its events: its input was in the row alone" in refused.stderr
    assert call(run_id, "--dead-letters").exit_code == 2
