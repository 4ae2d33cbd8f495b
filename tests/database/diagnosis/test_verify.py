"""Rows agree with events, whatever happens to a run; and what does not agree is found."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner, Result
from support.history_generator import RandomHistory
from support.run_driver import TRANSIENT, RunDriver, claim, header, settle
from support.stored_values import VALUES

from pipeweave import ids
from pipeweave.cli import main
from pipeweave.errors import NotFound
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.domain import replay
from pipeweave.orchestrator.domain.stored_event import StoredEvent
from pipeweave.orchestrator.engine.advance import Advance
from pipeweave.orchestrator.runs import standalone_tasks
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.store.database import Database, Transaction

SEEDS = 24
DIAMOND = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}


@pytest.fixture
def driver(database: Database) -> RunDriver:
    return RunDriver(database)


def differences(driver: RunDriver, run_id: UUID) -> list[verify.Difference]:
    with verify.snapshot(driver.database) as tx:
        return verify.run(tx, run_id)


def fields(found: list[verify.Difference]) -> list[str]:
    return [each.field for each in found]


@contextmanager
def undone(tx: Transaction) -> Iterator[None]:
    tx.execute("SAVEPOINT before")
    yield
    tx.execute("ROLLBACK TO SAVEPOINT before")


# --- what agrees ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(SEEDS))
def test_any_history_agrees_with_its_rows_at_every_moment(driver: RunDriver, seed: int) -> None:
    history = RandomHistory(driver, seed)
    for number in range(120):
        if not history.step():
            break
        if number % 5 == 0:
            assert differences(driver, history.run_id) == []
    history.go()
    assert differences(driver, history.run_id) == []


WANTED = {
    *("run.completed", "run.partial", "run.failed", "run.cancelled"),
    *("task_runs.ready", "task_runs.skipped", "task_runs.cancelled", "task_run.mapped"),
    *("task_run.failed", "task_run.timed_out", "task_run.retrying"),
    *("run.reopened", "task_run.reopened", "task_runs.reopened"),
}


def test_histories_are_of_every_kind(driver: RunDriver) -> None:
    """What the test above relies upon."""
    missing = set(WANTED)
    for seed in range(4 * SEEDS):
        if missing:
            history = RandomHistory(driver, seed)
            history.go()
            types = "SELECT DISTINCT e.type FROM events AS e WHERE e.run_id = :id"
            missing -= {row.type for row in driver.rows(types, id=history.run_id)}
    assert not missing


def test_a_run_that_changes_during_verify_is_read_in_one_snapshot(driver: RunDriver) -> None:
    run_id = driver.begin(DIAMOND)
    with verify.snapshot(driver.database) as tx:
        tx.execute("SELECT 1 FROM runs LIMIT 1")
        driver.finish(run_id, "a", "b", "c", "d")
        assert verify.run(tx, run_id) == []
    assert differences(driver, run_id) == []


def test_a_change_between_reading_events_and_rows_is_not_a_difference(
    driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = driver.begin(DIAMOND)
    rebuild = replay.rebuild

    def rebuild_and_change(events: Iterable[StoredEvent]) -> replay.RebuiltRun:
        rebuilt = rebuild(events)
        driver.finish(run_id, "a", "b", "c", "d")
        return rebuilt

    with monkeypatch.context() as patch:
        patch.setattr(replay, "rebuild", rebuild_and_change)
        assert differences(driver, run_id) == []
    assert driver.run(run_id).status == "completed"
    assert differences(driver, run_id) == []


def test_verifying_changes_nothing(driver: RunDriver) -> None:
    run_id = driver.begin(DIAMOND)
    with pytest.raises(Exception, match="takes no writes"), verify.snapshot(driver.database) as tx:
        tx.execute("UPDATE runs SET priority = 1 WHERE id = :id", {"id": run_id})


def test_a_run_that_is_not_there_is_not_there(driver: RunDriver) -> None:
    with pytest.raises(NotFound):
        differences(driver, ids.new_id())


# --- what does not ----------------------------------------------------------------------------------------

# A status that the constraints of the table take for the one that is stored.
_TAKEN_FOR = {
    "pending": "ready",
    "ready": "pending",
    "queued": "ready",
    "running": "waiting",
    "waiting": "pending",
    "completed": "skipped",
    "failed": "cancelled",
    "timeout": "cancelled",
    "cancelled": "skipped",
    "skipped": "cancelled",
}
_TAMPERED = {
    "status": f"CAST('{json.dumps(_TAKEN_FOR)}' AS jsonb) ->> status",
    "attempt": "attempt + 1",
    "was_released": "",
    "worker": "coalesce(worker, '') || 'x'",
    "error_code": "coalesce(error_code, '') || 'x'",
    "output_hash": "coalesce(output_hash, '') || 'x'",
    "selected_next": "coalesce(selected_next, ARRAY['x']) || ARRAY['y']",
    "map_first": "coalesce(map_first, 0) + 1",
    "map_count": "coalesce(map_count, 0) + 1",
}


@pytest.mark.parametrize("seed", range(100, 106))
@pytest.mark.parametrize("is_whole", [False, True], ids=["under way", "to its end"])
def test_a_field_that_was_tampered_with_is_found(driver: RunDriver, seed: int, is_whole: bool) -> None:
    history = RandomHistory(driver, seed)
    history.go(400 if is_whole else 12)
    rows = driver.task_runs(history.run_id)
    assert tuple(_TAMPERED) == verify.FIELDS
    with driver.database.transaction() as tx:
        for name, value in _TAMPERED.items():
            change, changed = f"{name} = {value}", rows
            if name == "was_released":
                change = "queued_at = CASE WHEN queued_at IS NULL THEN now() END"
                # Of the others the table refuses it.
                changed = [each for each in rows if each.status not in ("queued", "running")]
            with undone(tx):
                update = f"UPDATE task_runs SET {change} WHERE run_id = :run_id AND id = ANY(:ids)"
                tx.execute(update, {"run_id": history.run_id, "ids": [each.id for each in changed]})
                found = [(each.task_run_id, each.field) for each in verify.run(tx, history.run_id)]
                assert sorted(found) == [(each.id, name) for each in changed]


@pytest.mark.parametrize("seed", range(200, 212))
def test_an_event_that_is_missing_is_found(driver: RunDriver, seed: int) -> None:
    history = RandomHistory(driver, seed)
    history.go(10 + 40 * (seed % 4))
    statement = "SELECT e.seq, e.type, e.data FROM events AS e WHERE e.run_id = :id ORDER BY e.seq"
    with driver.database.transaction() as tx:
        rows = tx.execute(statement, {"id": history.run_id}).all()
        for row in rows:
            with undone(tx):
                delete = "DELETE FROM events WHERE run_id = :id AND seq = :seq"
                tx.execute(delete, {"id": history.run_id, "seq": row.seq})
                assert verify.run(tx, history.run_id) or _left_no_trace(row, rows), f"{row.type} ({row.seq})"


def _left_no_trace(row: Any, rows: list[Any]) -> bool:
    """That something was let go is not to be seen, if it was cancelled before anyone claimed it: by a limit,
    or before it was reopened.
    """
    if any(each.type.endswith(".reopened") and each.seq > row.seq for each in rows):
        return row.type in ("task_runs.queued", "task_runs.ready")
    return (row.data or {}).get("from") == "ready"


def test_a_missing_permission_of_a_limit_is_found_once_it_was_used(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []}, tasks={"a": "limited"})
    driver.finish(run_id, "a")
    with driver.database.transaction() as tx:
        delete = "DELETE FROM events WHERE run_id = :id AND data ->> 'from' = 'ready'"
        assert tx.execute(delete, {"id": run_id}).rowcount == 1
        assert fields(verify.run(tx, run_id)) == ["event"]


def test_an_attempt_that_was_tampered_with_is_found(driver: RunDriver) -> None:
    run_id = driver.begin({"a": []})
    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 1)
        assert started is not None
        settle(tx, started, failure=TRANSIENT)
    of_run = f"WHERE run_id = '{run_id}'"
    with driver.database.transaction() as tx:
        assert verify.run(tx, run_id) == []
        for change in (
            f"UPDATE attempts SET worker = 'who' {of_run}",
            f"UPDATE attempts SET status = 'lost' {of_run}",
            f"UPDATE attempts SET number = 7 {of_run}",
            f"DELETE FROM attempts {of_run}",
        ):
            with undone(tx):
                tx.execute(change)
                found = verify.run(tx, run_id)
                assert {each.field for each in found} <= {"attempts[1]", "attempts[7]"}
                assert found


@pytest.mark.parametrize("seed", range(300, 304))
def test_a_row_that_is_missing_is_found(driver: RunDriver, seed: int) -> None:
    history = RandomHistory(driver, seed)
    history.go(60)
    with driver.database.transaction() as tx:
        for row in tx.execute(
            "SELECT id, status FROM task_runs WHERE run_id = :id", {"id": history.run_id}
        ).all():
            with undone(tx):
                delete = "DELETE FROM task_runs WHERE run_id = :run_id AND id = :id"
                tx.execute(delete, {"run_id": history.run_id, "id": row.id})
                (found,) = verify.run(tx, history.run_id)
                assert found == verify.Difference(history.run_id, row.id, "row", verify.MISSING, row.status)


def test_a_run_that_was_tampered_with_is_found(driver: RunDriver) -> None:
    run_id = driver.begin(DIAMOND)
    driver.finish(run_id, "a", "b", "c", "d")
    with driver.database.transaction() as tx:
        for change, expected in {
            "status = 'cancelled'": ["status"],
            "error_code = 'STEP_FAILED'": ["error_code"],
            "status = 'cancelled', started_at = NULL": ["status", "has_started"],
        }.items():
            with undone(tx):
                tx.execute(f"UPDATE runs SET {change} WHERE id = :id", {"id": run_id})
                assert fields(verify.run(tx, run_id)) == expected


def test_an_added_event_is_found(driver: RunDriver) -> None:
    run_id = driver.begin(DIAMOND)
    insert = (
        "INSERT INTO events (run_id, at, type, task_run_id, attempt, data) VALUES (:run_id, now(), :type,"
    )
    more = {"run.completed": ["status"], "run.imagined": ["event"], "task_run.started": ["event"]}
    with driver.database.transaction() as tx:
        for type_, expected in more.items():
            for data in ("{}", "[1, 2]", "null"):
                with undone(tx):
                    # About a task run of another run.
                    values = {"run_id": run_id, "type": type_, "id": ids.task_run_id(ids.new_id(), 1)}
                    tx.execute(f"{insert} :id, 7, '{data}')", values)
                    assert fields(verify.run(tx, run_id)) == expected


def test_differences_of_a_run_without_events_are_limited(driver: RunDriver) -> None:
    run_id = driver.begin({f"s{number}": [] for number in range(200)})
    with driver.database.transaction() as tx, undone(tx):
        tx.execute("DELETE FROM events WHERE run_id = :id", {"id": run_id})
        assert len(verify.run(tx, run_id)) == verify.MOST_PER_RUN


# --- the command ------------------------------------------------------------------------------------------


def call(database: Database, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["verify", *arguments, "--database-url", database.url])


def tamper(driver: RunDriver, run_id: UUID) -> None:
    with driver.database.transaction() as tx:
        tx.execute(
            "UPDATE task_runs SET worker = 'who' WHERE run_id = :id AND worker IS NULL", {"id": run_id}
        )


def test_the_command_is_content_when_all_agree(fresh_database: Database) -> None:
    driver = RunDriver(fresh_database)
    runs = [driver.begin(DIAMOND) for _ in range(3)]
    driver.finish(runs[1], "a", "b")
    result = call(fresh_database, "--all")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "3 runs agree with their events\n")
    named = call(fresh_database, ids.show(ids.RUN, runs[0]), "--json")
    assert json.loads(named.stdout) == {
        "verified": 1,
        "differing": 0,
        "differenceCount": 0,
        "differences": [],
    }


def test_the_command_shows_a_line_for_each_difference(fresh_database: Database) -> None:
    driver = RunDriver(fresh_database)
    fine, wrong = driver.begin(DIAMOND), driver.begin(DIAMOND)
    with driver.database.transaction() as tx:
        claim(tx, wrong, 1)
    tamper(driver, wrong)
    result = call(fresh_database, "--since", "1h")
    assert result.exit_code == 1
    run, step = ids.show(ids.RUN, wrong), ids.show(ids.TASK_RUN, ids.task_run_id(wrong, 2))
    lines = result.stdout.splitlines()
    assert (len(lines), lines[0]) == (3, f"{run} {step} worker: stored who, rebuilt -")
    assert result.stderr == "1 of 2 runs differ from their events\n"
    shown: dict[str, Any] = json.loads(call(fresh_database, "--all", "--json").stdout)
    assert (shown["verified"], shown["differing"], shown["differenceCount"]) == (2, 1, 3)
    assert shown["differences"][0] == {
        "run": run,
        "taskRun": step,
        "field": "worker",
        "stored": "who",
        "rebuilt": None,
    }
    assert call(fresh_database, ids.show(ids.RUN, fine)).exit_code == 0


def test_the_command_verifies_the_newest_runs_up_to_a_limit(fresh_database: Database) -> None:
    driver = RunDriver(fresh_database)
    tamper(driver, driver.begin(DIAMOND))
    driver.begin(DIAMOND)
    assert call(fresh_database, "--all", "--limit", "1").exit_code == 0
    assert call(fresh_database, "--all", "-n", "2").exit_code == 1
    assert call(fresh_database, "--since", "2999-01-01T00:00:00Z").stderr.startswith("0 runs")


def test_a_standalone_task_is_verified_by_its_task_run_id(fresh_database: Database) -> None:
    driver = RunDriver(fresh_database)
    with driver.database.transaction() as tx:
        (queued,) = standalone_tasks.enqueue(tx, VALUES, driver.tenant, [QueueRequest("noop", 1)])
    result = call(fresh_database, ids.show(ids.TASK_RUN, queued.task_run_id))
    assert (result.exit_code, result.stderr) == (0, "1 run agrees with its events\n")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "--all or --since"),
        (("--all", "prun_01jd0000000000000000000000"), 2, "--all or --since"),
        (("prun_01jd0000000000000000000000",), 1, "NOT_FOUND"),
        (("sausage",), 1, "NOT_FOUND"),
        (("--all", "--limit", "0"), 2, "0"),
    ],
)
def test_a_wrong_wish_is_refused(
    database: Database, arguments: tuple[str, ...], code: int, said: str
) -> None:
    result = call(database, *arguments)
    assert result.exit_code == code
    assert said in result.stderr


def test_a_run_is_read_in_pieces(driver: RunDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(verify, "RUNS_AT_ONCE", 2)
    runs = [driver.begin(DIAMOND) for _ in range(5)]
    driver.finish(runs[0], "a", "b", "c", "d")
    tamper(driver, runs[1])
    with verify.snapshot(driver.database) as tx:
        assert verify.run(tx, runs[0]) == []
        since = driver.run(runs[0]).created_at
        assert [each for each in verify.run_ids(tx, since=since) if each in runs] == runs[::-1]
        found = [each for each in verify.all_runs(tx, since=since) if each.run_id in runs]
    assert [each.run_id for each in found] == [runs[1]] * 4


def test_the_attempts_of_a_run_are_read_in_pieces(driver: RunDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "ROWS_AT_ONCE", 2)
    steps = "abcde"
    run_id = driver.begin({each: [] for each in steps})
    for each in steps:
        driver.finish(run_id, each, failure=TRANSIENT)
    with driver.database.transaction() as tx:
        advance = Advance(tx, header(tx, run_id))
        advance.release_due([row.id for row in driver.task_runs(run_id)])
        advance.close()
    with driver.database.transaction() as tx:
        [again] = claiming.start(tx, run_id, [1], 2, worker="w2")
        settle(tx, again, failure=TRANSIENT)
    assert len(driver.rows("SELECT 1 FROM attempts WHERE run_id = :id", id=run_id)) == 6
    assert differences(driver, run_id) == []
