"""History goes by the month: complete in the archive, never while a run of it goes on, never by halves."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.aged_rows import at, bury, count, past_run
from support.concurrency import call_concurrently
from support.run_driver import PERMANENT, RunDriver

from pipeweave import ids
from pipeweave.errors import Conflict, NotFound, Unavailable
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.domain.months import Month
from pipeweave.orchestrator.retention import (
    archive,
    archive_format,
    default_partition,
    drop_months,
    partitions,
)
from pipeweave.orchestrator.retention.archive import Counts
from pipeweave.orchestrator.retention.drop_months import MonthOutcome, MonthResult
from pipeweave.orchestrator.retention.month_status import MonthOnDisk
from pipeweave.orchestrator.retention.partitions import PARTITIONED
from pipeweave.orchestrator.retention.policy import Policy
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.runs.reactions import reactions_to
from pipeweave.orchestrator.runs.triggering import Trigger
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.storage.local import LocalStorage

MARCH, APRIL = Month(2031, 3), Month(2031, 4)
IN_MARCH, IN_APRIL = at("2031-03-15"), at("2031-04-15")
# A month after March, and not yet one after April.
NOW = at("2031-05-02")
THIRTY_DAYS = Policy(timedelta(days=30))
NO_ARCHIVE = Policy(timedelta(days=30), is_archived=False)


class Clock:
    """A clock the test sets."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def database(fresh_database: Database, clock: Clock) -> Iterator[Database]:
    """Partitions from March on, in May."""
    opened = Database(fresh_database.url, values=fresh_database.values, react=reactions_to, now=clock)
    with opened.transaction() as tx:
        # The months in which this test runs are long past there.
        for each in partitions.list_partitions(tx):
            if each.month is not None:
                tx.execute(f"DROP TABLE {each.name}")
        partitions.ensure(tx, IN_MARCH, months_ahead=4)
    yield opened
    opened.dispose()


@pytest.fixture
def storage(database: Database) -> LocalStorage:
    found = database.values_or_raise.storage
    assert isinstance(found, LocalStorage)
    return found


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drop_months, "TRIES", 1)
    monkeypatch.setattr(drop_months, "PAUSE_S", 0.01)


def fill(database: Database, *moments: datetime, **how: Any) -> list[UUID]:
    with database.transaction() as tx:
        return [past_run(tx, moment, **how) for moment in moments]


def retire(database: Database, policy: Policy = THIRTY_DAYS, **how: Any) -> list[MonthResult]:
    return drop_months.run_once(database, database.values_or_raise.storage, policy, **{"tries": 1, **how})


def tables(database: Database, month: Month) -> set[str]:
    with database.transaction() as tx:
        return {each.parent for each in partitions.list_partitions(tx) if each.month == month}


def rows(database: Database) -> list[int]:
    with database.transaction() as tx:
        return [count(tx, each) for each in PARTITIONED]


def lines_of(storage: LocalStorage, month: Month = MARCH, tail: str = "") -> list[dict[str, Any]]:
    """The archive, read as anyone would: files of gzipped lines."""
    folder = storage.root / "archive" / "runs" / f"{month}{tail}"
    files = sorted(folder.glob("part-*.ndjson.gz"))
    return [json.loads(line) for file in files for line in gzip.open(file, "rt", encoding="utf-8")]


def manifest_of(storage: LocalStorage, month: Month = MARCH, tail: str = "") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (storage.root / "archive" / "runs" / f"{month}{tail}" / "manifest.json").read_text()
    )
    return found


# --- what goes, and what stays ----------------------------------------------------------------------------


def test_a_month_that_is_due_is_archived_and_dropped_and_the_next_one_stays(
    database: Database, storage: LocalStorage
) -> None:
    fill(database, IN_MARCH, IN_MARCH, steps=3)
    fill(database, IN_APRIL)
    (march,) = retire(database)
    assert march == MonthResult(
        MARCH, MonthOutcome.DROPPED, Counts(2, 6, 6, 6), "archive/runs/2031-03/manifest.json"
    )
    assert rows(database) == [1, 2, 2, 2]
    assert (tables(database, MARCH), tables(database, APRIL)) == (set(), set(PARTITIONED))
    assert retire(database) == []


def test_without_a_retention_nothing_is_ever_due(database: Database, clock: Clock) -> None:
    fill(database, IN_MARCH)
    clock.now = at("2040-01-01")
    assert retire(database, Policy()) == []
    assert rows(database)[0] == 1


def test_without_an_archive_a_month_is_only_dropped(database: Database, storage: LocalStorage) -> None:
    fill(database, IN_MARCH)
    assert retire(database, NO_ARCHIVE) == [
        MonthResult(MARCH, MonthOutcome.DROPPED, Counts(1, 2, 2, 2), None)
    ]
    assert not (storage.root / "archive").exists()


def test_a_rehearsal_says_what_would_go_and_changes_nothing(
    database: Database, storage: LocalStorage
) -> None:
    fill(database, IN_MARCH)
    assert retire(database, is_rehearsal=True) == [MonthResult(MARCH, MonthOutcome.DUE, Counts(1, 2, 2, 2))]
    assert rows(database) == [1, 2, 2, 2]
    assert not (storage.root / "archive").exists()


@pytest.mark.parametrize("status", ["pending", "running", "paused", "error_handling"])
def test_a_month_with_an_active_run_stays(database: Database, storage: LocalStorage, status: str) -> None:
    fill(database, IN_MARCH)
    (going_on,) = fill(database, IN_MARCH, status=status)
    assert retire(database) == [MonthResult(MARCH, MonthOutcome.ACTIVE, active_runs=(going_on,))]
    assert rows(database) == [2, 4, 4, 4]
    assert not (storage.root / "archive").exists()
    with database.transaction() as tx:
        tx.execute(
            "UPDATE runs SET status = 'cancelled', finished_at = now() WHERE id = :id", {"id": going_on}
        )
    assert retire(database)[0].counts == Counts(2, 4, 4, 4)


def test_an_empty_month_is_dropped_too(database: Database) -> None:
    assert [each.outcome for each in retire(database)] == [MonthOutcome.DROPPED]
    assert tables(database, MARCH) == set()


def test_the_default_partition_is_never_dropped_and_old_rows_in_it_are_reported(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    fill(database, at("2030-12-24"))
    retire(database)
    assert rows(database) == [1, 2, 2, 2]
    assert [each.message for each in caplog.records].count("month.astray") == 4
    with database.transaction() as tx:
        assert count(tx, "runs_default") == 1


def test_a_month_that_lacks_a_partition_gets_it_before_it_goes(
    database: Database, storage: LocalStorage
) -> None:
    """A table was in use whenever the tick came by."""
    with database.transaction() as tx:
        tx.execute("DROP TABLE attempts_2031_03")
    fill(database, IN_MARCH)
    assert retire(database, is_rehearsal=True)[0].counts == Counts(1, 2, 0, 2)
    assert retire(database)[0].counts == Counts(1, 2, 2, 2)
    assert rows(database) == [0, 0, 0, 0]
    assert len(lines_of(storage)[0]["attempts"]) == 2


def test_run_tokens_go_with_their_runs(database: Database) -> None:
    for moment, token in ((IN_MARCH, "old"), (IN_APRIL, "young")):
        (run_id,) = fill(database, moment)
        with database.transaction() as tx:
            tx.execute(
                """INSERT INTO run_tokens (tenant_id, run_token, pipeline_id, inputs_hash, run_id, created_at)
                VALUES ('default', :token, 'past', 'x', :id, :now)""",
                {"token": token, "id": run_id, "now": moment},
            )
    retire(database)
    with database.transaction() as tx:
        assert tx.execute("SELECT run_token FROM run_tokens").scalars() == ["young"]


def test_run_tokens_of_an_older_month_that_stays_stay_too(database: Database) -> None:
    (run_id,) = fill(database, IN_MARCH)
    with database.transaction() as tx:
        tx.execute(
            """INSERT INTO run_tokens (tenant_id, run_token, pipeline_id, inputs_hash, run_id, created_at)
            VALUES ('default', 'old', 'past', 'x', :id, :now)""",
            {"id": run_id, "now": IN_MARCH},
        )
    drop_months._drop(database, APRIL)
    with database.transaction() as tx:
        assert tx.execute("SELECT run_token FROM run_tokens").scalars() == ["old"]


def test_a_month_on_its_way_out_stays_where_all_is_to_be_kept() -> None:
    leaving = MonthOnDisk(APRIL, is_leaving=True)
    assert drop_months.is_due(leaving, THIRTY_DAYS, NOW)
    assert not drop_months.is_due(leaving, Policy(None), NOW)


def test_dead_letters_outlive_their_runs(database: Database) -> None:
    fill(database, IN_MARCH)
    with database.transaction() as tx:
        bury(tx, IN_MARCH)
    retire(database)
    with database.transaction() as tx:
        assert count(tx, "dead_letters") == 1


# --- what the archive holds -------------------------------------------------------------------------------


def test_every_line_is_a_run_with_all_that_is_known_of_it(database: Database, storage: LocalStorage) -> None:
    made = fill(database, *[IN_MARCH + timedelta(hours=hour) for hour in range(5)], steps=3)
    retire(database)
    lines = lines_of(storage)
    assert [each["runId"] for each in lines] == [ids.show(ids.RUN, each) for each in made]
    for line in lines:
        assert (line["line"], line["isLast"]) == (1, True)
        run, task_runs = line["run"], line["taskRuns"]
        assert (run["id"], run["status"], run["tenant"], run["input"]) == (
            line["runId"],
            "completed",
            "default",
            {"n": 1},
        )
        assert [each["output"] for each in task_runs] == [{"n": 2}] * 3
        assert [each["taskRunId"] for each in line["attempts"]] == [each["id"] for each in task_runs]
        assert [each["taskRunId"] for each in line["events"]] == [each["id"] for each in task_runs]
        assert line["attempts"][0]["errorCode"] == "BOOM"
        assert line["events"][0]["data"] == {"n": 3}


def test_a_run_reads_in_the_archive_as_it_did_in_the_api(
    database: Database, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    clock.now = IN_MARCH
    make = ids.new_id
    monkeypatch.setattr(ids, "new_id", lambda: make(int(clock().timestamp() * 1000)))
    driver = RunDriver(database)
    run_id = driver.begin({"a": [], "b": ["a"], "c": ["a"]}, {"big": "x" * 50_000})
    driver.finish(run_id, "a", "b", output={"large": "y" * 50_000})
    driver.finish(run_id, "c", failure=PERMANENT)
    with database.transaction() as tx:
        tx.execute(
            """UPDATE runs SET status = 'failed', error_code = 'X', finished_at = created_at
            WHERE finished_at IS NULL"""
        )
    with database.reading() as tx:
        shown = reading.run(tx, driver.tenant, run_id)
        events = reading.run_events(tx, driver.tenant, run_id, reading.Page(1000))["items"]
        details = [reading.task_run(tx, driver.tenant, ids.task_run_id(run_id, n)) for n in (1, 2, 3)]
    clock.now = NOW
    retire(database)
    (line,) = lines_of(storage)
    assert line["events"] == events
    assert line["run"] == {**line["run"], **{key: shown[key] for key in line["run"].keys() & shown.keys()}}
    assert line["run"]["inputRef"]["size"] > 50_000
    for kept, detail in zip(line["taskRuns"], details, strict=True):
        same = kept.keys() & detail.keys() - {"runId"}
        assert len(same) > 25
        assert {key: kept[key] for key in same} == {key: detail[key] for key in same}
    assert line["taskRuns"][0]["outputRef"]["hash"] == line["taskRuns"][0]["outputHash"]


def test_a_run_with_many_steps_goes_on_in_further_lines(
    database: Database, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_format, "MOST_IN_LINE", 100)
    monkeypatch.setattr(archive_format, "FETCHED", 7)
    fill(database, IN_MARCH, IN_MARCH, steps=250)
    retire(database)
    lines = lines_of(storage)
    assert [each["line"] for each in lines] == [*range(1, 9)] * 2
    assert [each["isLast"] for each in lines] == [*[False] * 7, True] * 2
    assert [each["run"] is not None for each in lines] == [each["line"] == 1 for each in lines]
    first = [each for each in lines if each["runId"] == lines[0]["runId"]]
    for kind in ("taskRuns", "attempts", "events"):
        found = [item for line in first for item in line[kind]]
        assert len(found) == 250
        assert len({item.get("seq", item.get("taskRunId", item.get("id"))) for item in found}) == 250


@pytest.mark.parametrize(("number", "at_a_time"), [(12, 5), (10, 5), (3, 5), (1, 1)])
def test_no_run_is_lost_between_two_transactions(
    database: Database, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, number: int, at_a_time: int
) -> None:
    monkeypatch.setattr(archive_format, "RUNS_AT_ONCE", at_a_time)
    made = fill(database, *[IN_MARCH + timedelta(minutes=each) for each in range(number)])
    retire(database)
    assert [each["runId"] for each in lines_of(storage)] == [ids.show(ids.RUN, each) for each in made]


def test_the_manifest_names_parts_counts_and_hashes(
    database: Database, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "PART_BYTES", 20)
    made = fill(database, *[IN_MARCH + timedelta(minutes=each) for each in range(40)], steps=40)
    retire(database)
    manifest = manifest_of(storage)
    assert {key: manifest[key] for key in ("runs", "taskRuns", "attempts", "events")} == {
        "runs": 40,
        **dict.fromkeys(("taskRuns", "attempts", "events"), 1600),
    }
    assert (manifest["month"], manifest["firstRunId"]) == ("2031-03", ids.show(ids.RUN, made[0]))
    assert len(manifest["parts"]) > 1
    for part in manifest["parts"]:
        content = storage.get(part["path"])
        assert (hashlib.sha256(content).hexdigest(), len(content)) == (part["sha256"], part["size"])
        assert len(gzip.decompress(content).splitlines()) == part["lines"]
    (known,) = archive.list_archives(storage)
    assert list(archive.read_lines(storage, known)) == lines_of(storage)


def test_what_has_lost_its_run_is_archived_all_the_same(database: Database, storage: LocalStorage) -> None:
    lost, kept = fill(database, IN_MARCH, IN_MARCH + timedelta(days=1))
    with database.transaction() as tx:
        tx.execute("DELETE FROM runs WHERE id = :id", {"id": lost})
    assert retire(database)[0].counts == Counts(1, 4, 4, 4)
    lines = lines_of(storage)
    assert [each["run"] is None for each in lines] == [True, False]
    assert [len(each["taskRuns"]) for each in lines] == [2, 2]
    assert lines[1]["runId"] == ids.show(ids.RUN, kept)


# --- crashes and races ------------------------------------------------------------------------------------


class Crash(Exception):
    """The process died here."""


def crash(*_: object) -> None:
    raise Crash


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("part-*") if path.is_file()}


def test_a_crash_between_archive_and_drop_is_made_good_by_the_next_pass(
    database: Database, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(database, IN_MARCH, IN_MARCH)
    with monkeypatch.context() as patch:
        patch.setattr(drop_months, "_detach", crash)
        with pytest.raises(Crash):
            retire(database)
    before = contents(storage.root)
    assert before
    assert rows(database) == [2, 4, 4, 4]
    assert retire(database)[0].counts == Counts(2, 4, 4, 4)
    assert contents(storage.root) == before
    assert len(archive.list_archives(storage)) == 1


def test_a_crash_while_the_archive_is_written_leaves_no_manifest(
    database: Database, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "PART_BYTES", 20)
    fill(database, *[IN_MARCH] * 40, steps=40)
    put = LocalStorage.put

    def put_one(self: LocalStorage, path: str, content: bytes) -> None:
        if "part-00002" in path:
            raise Unavailable("the store is away")
        put(self, path, content)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "put", put_one)
        with pytest.raises(Unavailable):
            retire(database)
    assert not storage.exists("archive/runs/2031-03/manifest.json")
    assert rows(database)[0] == 40
    assert retire(database)[0].outcome is MonthOutcome.DROPPED
    assert len(lines_of(storage)) == 40


def test_a_crash_while_an_archive_is_written_again_leaves_none_that_names_parts_of_both(
    database: Database, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(database, IN_MARCH)
    archive.archive_month(database, storage, MARCH)
    fill(database, IN_MARCH)
    with monkeypatch.context() as patch:
        patch.setattr(archive_format, "lines", crash)
        with pytest.raises(Crash):
            archive.archive_month(database, storage, MARCH)
    assert not storage.exists("archive/runs/2031-03/manifest.json")
    assert archive.list_archives(storage) == []
    archive.archive_month(database, storage, MARCH)
    assert len(lines_of(storage)) == 2


def test_a_table_that_another_process_has_just_detached_is_left_so(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(database, IN_MARCH)
    lock = default_partition.lock_tables

    def lock_after_another(tx: Transaction, parents: Sequence[str]) -> None:
        with database.transaction() as other:
            other.execute(f"ALTER TABLE {parents[0]} DETACH PARTITION {MARCH.table(parents[0])}")
        lock(tx, parents)

    monkeypatch.setattr(default_partition, "lock_tables", lock_after_another)
    assert drop_months._detach_from(database, "events", MARCH) == []
    assert drop_months._detach_from(database, "runs", MARCH) == []


@pytest.mark.parametrize("parent", PARTITIONED)
def test_a_month_that_is_half_gone_goes_on_from_there(
    database: Database, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, parent: str
) -> None:
    fill(database, IN_MARCH)
    detach = drop_months._detach_from

    def detach_until(database: Database, each: str, month: Month) -> list[UUID]:
        if each == parent:
            raise Crash
        return detach(database, each, month)

    with monkeypatch.context() as patch:
        patch.setattr(drop_months, "_detach_from", detach_until)
        with pytest.raises(Crash):
            retire(database)
    assert tables(database, MARCH) == set(PARTITIONED)
    assert retire(database)[0].counts == Counts(1, 2, 2, 2)
    assert tables(database, MARCH) == set()
    assert len(lines_of(storage)) == 1


def test_a_month_that_was_detached_and_not_dropped_is_dropped_by_the_next_pass(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(database, IN_MARCH)
    with monkeypatch.context() as patch:
        patch.setattr(drop_months, "_drop", crash)
        with pytest.raises(Crash):
            retire(database)
    assert rows(database) == [0, 0, 0, 0]
    assert tables(database, MARCH) == set(PARTITIONED)
    assert [each.outcome for each in retire(database)] == [MonthOutcome.DROPPED]
    assert tables(database, MARCH) == set()


def test_a_run_that_changed_after_the_archive_is_archived_as_it_is_now(
    database: Database, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its dead letter was retried, and it ended again, while the archive was being written."""
    (run_id,) = fill(database, IN_MARCH)
    detach = drop_months._detach

    def change_and_detach(database: Database, month: Month, tries: int) -> list[UUID]:
        with database.transaction() as tx:
            tx.execute(
                "INSERT INTO events (run_id, at, type) VALUES (:id, :now, 'run.reopened')",
                {"id": run_id, "now": tx.now},
            )
        return detach(database, month, tries)

    monkeypatch.setattr(drop_months, "_detach", change_and_detach)
    assert retire(database)[0].counts == Counts(1, 2, 2, 3)
    (line,) = lines_of(storage)
    assert line["events"][-1]["type"] == "run.reopened"
    assert manifest_of(storage)["events"] == 3


def test_a_run_that_was_opened_again_after_the_archive_keeps_its_month(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run_id,) = fill(database, IN_MARCH)
    detach = drop_months._detach

    def reopen_and_detach(database: Database, month: Month, tries: int) -> list[UUID]:
        with database.transaction() as tx:
            tx.execute(
                "UPDATE runs SET status = 'running', finished_at = NULL WHERE id = :id", {"id": run_id}
            )
        return detach(database, month, tries)

    monkeypatch.setattr(drop_months, "_detach", reopen_and_detach)
    assert retire(database) == [MonthResult(MARCH, MonthOutcome.ACTIVE, active_runs=(run_id,))]
    assert rows(database) == [1, 2, 2, 2]


def test_runs_that_turn_up_in_a_month_that_was_dropped_do_not_write_over_its_archive(
    database: Database, storage: LocalStorage
) -> None:
    """A clock went wrong, and a month that was gone came back."""
    fill(database, IN_MARCH)
    retire(database)
    fill(database, IN_MARCH + timedelta(days=2), IN_MARCH + timedelta(days=2))
    with database.transaction() as tx:
        partitions.ensure(tx, NOW)
    assert retire(database)[0].archive == "archive/runs/2031-03.2/manifest.json"
    assert [len(lines_of(storage, tail=each)) for each in ("", ".2")] == [1, 2]
    assert [each.counts.runs for each in archive.list_archives(storage)] == [1, 2]


def test_of_two_at_once_one_does_it(database: Database, storage: LocalStorage) -> None:
    fill(database, *[IN_MARCH] * 50)
    first, second = call_concurrently(lambda: retire(database), lambda: retire(database))
    errors = [each.error for each in (first, second) if each.error is not None]
    assert all(isinstance(each, Conflict) for each in errors)
    done = [outcome for each in (first, second) if each.error is None for outcome in each.result]
    assert [each.counts for each in done if each.counts and each.counts.runs] == [Counts(50, 100, 100, 100)]
    assert len(lines_of(storage)) == 50


def test_two_that_do_not_know_of_each_other_do_no_harm(
    database: Database, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that held the lock lost its connection, and with it the lock."""
    fill(database, *[IN_MARCH] * 20)

    class NoLock:
        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(drop_months, "alone", lambda _: NoLock())
    both = call_concurrently(*[lambda: retire(database, tries=20)] * 2)
    assert any(each.error is None for each in both)
    retire(database)
    assert tables(database, MARCH) == set()
    assert len(lines_of(storage)) == 20
    assert rows(database) == [0, 0, 0, 0]


def test_a_table_in_use_is_left_for_later_and_nobody_waits_for_it(database: Database) -> None:
    fill(database, IN_MARCH)
    with database.transaction() as reader:
        reader.execute("SELECT count(*) FROM runs")
        assert retire(database) == [MonthResult(MARCH, MonthOutcome.IN_USE)]
        assert rows(database) == [1, 2, 2, 2]
    assert retire(database)[0].outcome is MonthOutcome.DROPPED


def test_a_month_of_which_one_table_is_in_use_shows_no_run_of_it_any_more(database: Database) -> None:
    (run_id,) = fill(database, IN_MARCH)
    with database.transaction() as reader:
        reader.execute("SELECT count(*) FROM attempts")
        assert retire(database)[0].outcome is MonthOutcome.IN_USE
        with database.transaction() as tx:
            gone_politely(tx, run_id)
    assert retire(database)[0].counts == Counts(1, 2, 2, 2)


# --- what is gone -----------------------------------------------------------------------------------------


def gone_politely(tx: Any, run_id: UUID) -> None:
    page = reading.Page()
    looks: list[Callable[[], object]] = [
        lambda: reading.run(tx, "default", run_id),
        lambda: reading.run_events(tx, "default", run_id, page),
        lambda: reading.run_task_runs(tx, "default", run_id, page),
        lambda: reading.task_run(tx, "default", ids.task_run_id(run_id, 1)),
        lambda: triggering.cancel(tx, "default", run_id),
    ]
    for look in looks:
        with pytest.raises(NotFound):
            look()
    assert reading.run_list(tx, "default", page)["items"] == []


def test_a_run_that_is_gone_is_not_found(database: Database) -> None:
    (run_id,) = fill(database, IN_MARCH)
    retire(database)
    with database.transaction() as tx:
        gone_politely(tx, run_id)


def test_a_run_token_of_a_run_that_is_gone_starts_a_new_one(
    database: Database, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """Its month is on the way out: the run is gone, its token not yet."""
    clock.now = IN_MARCH
    make = ids.new_id
    monkeypatch.setattr(ids, "new_id", lambda: make(int(clock().timestamp() * 1000)))
    driver = RunDriver(database)
    driver.store({"a": []})

    def trigger() -> triggering.CreatedRun:
        with database.transaction() as tx:
            return triggering.trigger(tx, driver.tenant, Trigger("driven", run_token="again"))

    first = trigger()
    assert trigger().id == first.id
    driver.finish(first.id, "a")
    clock.now = NOW
    monkeypatch.setattr(drop_months, "_drop", crash)
    with pytest.raises(Crash):
        retire(database)
    second = trigger()
    assert (second.created, second.id != first.id) == (True, True)
    assert (trigger().created, trigger().id) == (False, second.id)


def test_a_clock_that_is_far_from_the_databases_is_not_trusted(database: Database, clock: Clock) -> None:
    with pytest.raises(Conflict, match="differ by"):
        drop_months.check_clock(database)
    clock.now = datetime.now(IN_MARCH.tzinfo)
    drop_months.check_clock(database)
