"""The sweep deletes old objects that no row refers to, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from support.concurrency import BackgroundCall
from support.memory_storage import MemoryStorage
from support.run_driver import PERMANENT, TRANSIENT, RunDriver, claim, settle
from support.servers import wait_until
from support.stored_values import values_in
from support.uploads import an_upload

from pipeweave import dispatch_ids, ids
from pipeweave.errors import Conflict, InvalidInput, NotFound, Unavailable
from pipeweave.orchestrator.objects import marks, owners, passes, requested_sweep, sweep
from pipeweave.orchestrator.objects.requested_sweep import SweepOrder
from pipeweave.orchestrator.objects.sweep import Swept
from pipeweave.orchestrator.runs import rerunning, standalone_tasks
from pipeweave.orchestrator.runs.standalone_tasks import QueueRequest
from pipeweave.orchestrator.store import doomed_objects, leases
from pipeweave.orchestrator.store.database import Database, to_json
from pipeweave.orchestrator.store.isolation import Unfinished
from pipeweave.orchestrator.store.values import Values
from pipeweave.size_limits import INLINE_BYTES
from pipeweave.storage import Backends, ObjectRef

DAY = timedelta(hours=24)
OLD = timedelta(hours=25)
LARGE = {"text": "x" * INLINE_BYTES}


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


@pytest.fixture
def driver(fresh_database: Database, storage: MemoryStorage) -> RunDriver:
    """Alone in its database; the sweep may delete what is in `storage`."""
    driver = RunDriver(fresh_database, values=values_in(storage))
    driver.store({"a": []})
    return driver


def age(storage: MemoryStorage, *paths: str, by: timedelta = OLD) -> None:
    """Make these objects as old as that; by default all."""
    for path in paths or storage.objects:
        storage.times[path] = datetime.now(UTC) - by


def put_old(storage: MemoryStorage, *paths: str) -> None:
    for path in paths:
        storage.put(path, b"{}")
    age(storage, *paths)


def run(driver: RunDriver, order: SweepOrder | None = None, **options: Any) -> requested_sweep.SweepResult:
    given: dict[str, Any] = {"grace": DAY, "is_own_folder": True} | options
    return requested_sweep.run(driver.database, driver.values.backends, order or SweepOrder(), **given)


def left(storage: MemoryStorage) -> set[str]:
    """What is in storage beside the mark."""
    return storage.objects.keys() - {marks.PATH}


def task_run(driver: RunDriver, run_id: UUID) -> Any:
    return driver.task_runs(run_id)[0]


def shown(task_run_id: UUID) -> str:
    return ids.show(ids.TASK_RUN, task_run_id)


def large(driver: RunDriver, name: str) -> str:
    """The path of a large value that is kept."""
    reference = driver.values.keep({**LARGE, "name": name}).path
    assert reference is not None
    return ObjectRef.parse(reference, "local").path


# --- what is deleted --------------------------------------------------------------------------------------


def test_an_object_that_no_row_names_goes_when_it_is_old(driver: RunDriver, storage: MemoryStorage) -> None:
    old, young = large(driver, "old"), large(driver, "young")
    size = len(storage.objects[old])
    age(storage, old)
    found = run(driver)
    assert left(storage) == {young}
    assert found.swept == Swept(seen=2, deleted=1, bytes=size, young=1, examples=[f"local//{old}"])
    assert found.next is None


def test_a_rehearsal_says_what_would_go(driver: RunDriver, storage: MemoryStorage) -> None:
    old = large(driver, "old")
    age(storage)
    found = run(driver, SweepOrder(is_rehearsal=True), is_own_folder=False)
    assert (found.swept.deleted, found.swept.examples) == (1, [f"local//{old}"])
    assert storage.objects.keys() == {old}


def test_what_is_not_ours_is_never_touched(driver: RunDriver, storage: MemoryStorage) -> None:
    foreign = ("archive/runs/index.json", "mine/photo.jpg", "runs/mine.txt", "artifacts/x")
    put_old(storage, *foreign)
    found = run(driver)
    assert left(storage) == set(foreign)
    assert (found.swept.seen, found.swept.unknown) == (1, 1)


def test_attempts_that_are_over_leave_only_their_logs(driver: RunDriver, storage: MemoryStorage) -> None:
    run_id = driver.trigger()
    driver.finish(run_id, "a", failure=TRANSIENT)
    row = task_run(driver, run_id)
    assert row.attempt == 2
    dispatched = dispatch_ids.make("s" * 32, row.id, 1)
    gone = [f"runs/{shown(row.id)}.1/output.json", f"runs/{dispatched}/assets/a.pdf"]
    kept = [
        f"runs/{shown(row.id)}.1/logs.jsonl",
        f"runs/{dispatched}/logs.jsonl",
        f"runs/{shown(row.id)}.2/output.json",
        f"runs/{shown(row.id)}.2/assets/a.pdf",
        f"runs/{shown(row.id)}/note.txt",
        f"pipelines/{ids.show(ids.RUN, run_id)}/input.json",
    ]
    nobody = [f"runs/{shown(ids.task_run_id(ids.new_id(), 1))}.1/output.json"]
    put_old(storage, *gone, *kept, *nobody)
    assert run(driver).swept.deleted == 3
    assert left(storage) == set(kept)


def drop_history(driver: RunDriver, run_id: UUID) -> None:
    """As when the month of the run was dropped."""
    for table in ("attempts", "events", "task_runs"):
        driver.rows(f"DELETE FROM {table} WHERE run_id = :id RETURNING 1", id=run_id)
    driver.rows("DELETE FROM runs WHERE id = :id RETURNING 1", id=run_id)


def test_the_objects_of_a_purged_run_go(driver: RunDriver, storage: MemoryStorage) -> None:
    upload = an_upload(driver.database, driver.tenant)
    run_id = driver.trigger(input={**LARGE, "file": ids.show(ids.UPLOAD, upload)})
    driver.finish(run_id, "a", output={**LARGE, "out": 1})
    put_old(
        storage,
        f"temp-uploads/{ids.show(ids.UPLOAD, upload)}/a.csv",
        f"runs/{shown(task_run(driver, run_id).id)}.1/logs.jsonl",
        f"standalone/{ids.show(ids.RUN, run_id)}/input.json",
    )
    age(storage)
    before = left(storage)
    assert run(driver).swept.kept == len(before) == 5
    drop_history(driver, run_id)
    assert run(driver).swept.deleted == 5
    assert left(storage) == set()
    row = driver.rows("SELECT deleted_at FROM temp_uploads WHERE id = :id", id=upload)[0]
    assert row.deleted_at is not None


def test_a_dead_letter_keeps_its_input_and_its_uploads(driver: RunDriver, storage: MemoryStorage) -> None:
    upload = an_upload(driver.database, driver.tenant)
    given = {**LARGE, "file": ids.show(ids.UPLOAD, upload)}
    with driver.database.transaction() as tx:
        (queued,) = standalone_tasks.enqueue(tx, driver.values, driver.tenant, [QueueRequest("noop", given)])
    run_id = ids.run_id_of(queued.task_run_id)
    driver.finish(run_id, "noop", failure=PERMANENT)
    drop_history(driver, run_id)
    put_old(storage, f"temp-uploads/{ids.show(ids.UPLOAD, upload)}/a.csv")
    age(storage)
    assert run(driver).swept.kept == 2
    driver.rows("DELETE FROM dead_letters RETURNING 1")
    assert run(driver).swept.deleted == 2


def test_a_result_that_is_reused_keeps_the_files_of_its_attempt(
    driver: RunDriver, storage: MemoryStorage
) -> None:
    run_id = driver.trigger()
    row = task_run(driver, run_id)
    files = [f"runs/{shown(row.id)}.1/assets/{name}" for name in ("a.pdf", "b.pdf")]
    put_old(storage, *files, f"runs/{shown(row.id)}.1/assets/other.pdf")
    assets = to_json({"a": {"path": f"local//{files[0]}"}, "b": {"path": files[1]}})
    driver.rows(
        """INSERT INTO idempotency_claims (tenant_id, task_id, key, task_run_id, claimed_at, assets)
        VALUES (:tenant, 'noop', 'k', :id, now(), CAST(:assets AS jsonb)) RETURNING 1""",
        tenant=driver.tenant,
        id=row.id,
        assets=assets,
    )
    drop_history(driver, run_id)
    assert run(driver).swept.deleted == 1
    other = task_run(driver, driver.trigger())
    driver.rows(
        """UPDATE task_runs SET cached_from = :origin, assets = CAST(:assets AS jsonb)
        WHERE run_id = :run_id AND id = :id RETURNING 1""",
        origin=row.id,
        run_id=other.run_id,
        id=other.id,
        assets=assets,
    )
    driver.rows("DELETE FROM idempotency_claims RETURNING 1")
    assert run(driver).swept.deleted == 0
    drop_history(driver, other.run_id)
    assert run(driver).swept.deleted == 2


def test_a_reference_of_an_older_version_keeps_its_object(driver: RunDriver, storage: MemoryStorage) -> None:
    run_id = driver.trigger(input=LARGE)
    driver.rows(
        "UPDATE runs SET input_path = split_part(input_path, '//', 2) WHERE id = :id RETURNING 1", id=run_id
    )
    age(storage)
    assert run(driver).swept.kept == 1


def test_a_row_keeps_the_copies_of_its_object_in_other_backends(
    driver: RunDriver, storage: MemoryStorage
) -> None:
    other = MemoryStorage()
    entries = [{"id": each, "provider": "local", "credentials": {}} for each in ("local", "other")]
    driver.values = Values(Backends(entries, "local", opened={"local": storage, "other": other}))
    run_id = driver.trigger(input=LARGE)
    upload = an_upload(driver.database, driver.tenant)
    driver.trigger(input=ids.show(ids.UPLOAD, upload))
    copies = [
        driver.run(run_id).input_path.split("//")[1],
        f"temp-uploads/{ids.show(ids.UPLOAD, upload)}/a.csv",
    ]
    put_old(other, *copies)
    assert run(driver, SweepOrder(backend="other")).swept.kept == 2
    drop_history(driver, run_id)
    assert run(driver, SweepOrder(backend="other")).swept.examples == [f"other//{copies[0]}"]


def test_an_unclaimed_upload_goes_when_it_expired(driver: RunDriver, storage: MemoryStorage) -> None:
    expired = an_upload(driver.database, driver.tenant, age=OLD)
    waiting = an_upload(driver.database, driver.tenant)
    paths = [f"temp-uploads/{ids.show(ids.UPLOAD, each)}/a.csv" for each in (expired, waiting, ids.new_id())]
    put_old(storage, *paths)
    assert run(driver).swept.deleted == 2
    assert left(storage) == {paths[1]}


def test_expired_uploads_go_at_once_with_the_tick(driver: RunDriver, storage: MemoryStorage) -> None:
    upload = an_upload(driver.database, driver.tenant, age=OLD)
    path = f"temp-uploads/{ids.show(ids.UPLOAD, upload)}/a.csv"
    storage.put(path, b"x")
    storage.is_away = True
    assert passes.expire_uploads(driver.database, driver.values.backends) == 1
    storage.is_away = False
    # Its row is marked: the sweep finds the object that was left.
    assert path in storage.objects
    age(storage)
    assert run(driver).swept.deleted == 1


# --- beside runs that begin -------------------------------------------------------------------------------


class WatchedStorage(MemoryStorage):
    """Calls each of `meanwhile` before one deletion, after the sweep's last look at the object."""

    meanwhile: Iterator[Callable[[], None]] = iter(())

    def delete(self, path: str) -> None:
        next(self.meanwhile, lambda: None)()
        super().delete(path)


def test_a_value_that_is_kept_again_is_young_again(driver: RunDriver, storage: MemoryStorage) -> None:
    path = large(driver, "again")
    age(storage)
    run_id = driver.trigger(input={**LARGE, "name": "again"})
    assert path not in storage.times
    assert run(driver).swept.deleted == 0
    assert driver.run(run_id).input_path == f"local//{path}"


def test_a_run_that_begins_between_look_and_deletion_keeps_its_input(fresh_database: Database) -> None:
    """The sweep has looked for the last time; then the value is kept again, and the sweep deletes it."""
    storage = WatchedStorage()
    values = Values(
        Backends.only(storage),
        is_doomed=lambda where: doomed_objects.is_doomed(fresh_database, where),
    )
    driver = RunDriver(fresh_database, values=values)
    driver.store({"a": []})
    path = large(driver, "again")
    age(storage)
    trigger = BackgroundCall(lambda: driver.trigger(input={**LARGE, "name": "again"}))

    def meanwhile() -> None:
        trigger.__enter__()
        # It wrote the object anew, and waits for the sweep.
        wait_until(lambda: path not in storage.times, what="the value was not kept again")

    storage.meanwhile = iter([meanwhile])
    assert run(driver).swept.deleted == 1
    assert driver.run(trigger.result).input_path == f"local//{path}"
    assert path in storage.objects


def test_a_row_that_came_since_the_page_was_looked_up_keeps_the_object(
    driver: RunDriver, storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = large(driver, "again")
    age(storage)
    kept = driver.values.keep({"n": 1})
    assert kept.path is None
    doom = sweep._Doom.__enter__

    def late(self: sweep._Doom) -> float:
        driver.trigger()
        driver.rows("UPDATE runs SET input = NULL, input_path = :path RETURNING 1", path=f"local//{path}")
        return doom(self)

    monkeypatch.setattr(sweep._Doom, "__enter__", late)
    assert run(driver).swept.deleted == 0
    assert path in storage.objects


def test_an_upload_that_is_being_claimed_is_left_alone(driver: RunDriver, storage: MemoryStorage) -> None:
    upload = an_upload(driver.database, driver.tenant)
    first = driver.trigger(input=ids.show(ids.UPLOAD, upload))
    drop_history(driver, first)
    put_old(storage, f"temp-uploads/{ids.show(ids.UPLOAD, upload)}/a.csv")
    with driver.database.transaction() as tx:
        tx.execute("SELECT 1 FROM temp_uploads WHERE id = :id FOR NO KEY UPDATE", {"id": upload})
        sweeping = BackgroundCall(lambda: run(driver))
        sweeping.__enter__()
        wait_until(lambda: waits(driver), what="the sweep does not wait")
        tx.execute(
            "INSERT INTO upload_claims (run_id, upload_id) VALUES (:run, :id)",
            {"run": driver.trigger(), "id": upload},
        )
    assert sweeping.result.swept.deleted == 0
    assert len(left(storage)) == 1


def waits(driver: RunDriver) -> bool:
    found = driver.rows(
        "SELECT count(*) AS n FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    return bool(found[0].n)


# --- pages, crashes and trouble ---------------------------------------------------------------------------


def test_thousands_of_objects_are_swept_in_pages(
    driver: RunDriver, storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "PAGE", 50)
    run_id = driver.trigger()
    own = shown(task_run(driver, run_id).id)
    for number in range(1_000):
        other = shown(ids.task_run_id(ids.new_id(), 1))
        storage.put(f"runs/{own}.1/assets/{number}", b"x")
        storage.put(f"runs/{other}.1/assets/{number}", b"xy")
    large(driver, "old")
    age(storage)
    found = run(driver)
    assert (found.swept.seen, found.swept.kept, found.swept.deleted) == (2_001, 1_000, 1_001)
    assert len(found.swept.examples) == sweep.EXAMPLES
    assert len(left(storage)) == 1_000


def test_a_request_goes_on_where_the_one_before_ended(
    driver: RunDriver, storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "PAGE", 2)
    put_old(storage, *(f"runs/{shown(ids.task_run_id(ids.new_id(), 1))}.1/output.json" for _ in range(5)))
    deleted, after, requests = 0, None, 0
    while requests == 0 or after is not None:
        found = run(driver, SweepOrder(after=after), seconds=0)
        deleted, after, requests = deleted + found.swept.deleted, found.next, requests + 1
    assert deleted == 5
    assert 5 <= requests <= 6
    assert left(storage) == set()


def test_the_next_process_goes_on_after_one_that_died(
    driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "PAGE", 2)
    storage = WatchedStorage()
    driver.values = values_in(storage)
    put_old(storage, *(f"runs/{shown(ids.task_run_id(ids.new_id(), 1))}.1/output.json" for _ in range(5)))

    class Died(BaseException):
        """The process was killed."""

    def die() -> None:
        raise Died

    storage.meanwhile = iter([lambda: None, lambda: None, die])
    assert tick(driver) == 2
    with pytest.raises(Died):
        tick(driver)
    # What it had taken ends by itself.
    driver.rows("UPDATE leases SET ends_at = now() RETURNING 1")
    assert [tick(driver), tick(driver)] == [2, 1]
    assert left(storage) == set()


def tick(driver: RunDriver, **options: Any) -> int:
    given: dict[str, Any] = {"is_own_folder": True} | options
    return passes.run_once(driver.database, driver.values.backends, 24, **given)


def test_the_tick_sweeps_a_backend_once_an_hour(
    driver: RunDriver, storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    large(driver, "old")
    age(storage)
    assert [tick(driver) for _ in range(3)] == [1, 0, 0]
    large(driver, "other")
    age(storage)
    assert tick(driver) == 0
    driver.rows("UPDATE storage_sweeps SET finished_at = finished_at - interval '2 h' RETURNING 1")
    assert tick(driver) == 1
    row = driver.rows("SELECT * FROM storage_sweeps")[0]
    assert (row.backend_id, row.last_path is None, row.doomed) == ("local", False, None)


def test_storage_that_is_away_is_left_for_later(
    driver: RunDriver, storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.is_away = True
    swept = tick(driver)
    assert (swept, isinstance(swept, Unfinished)) == (0, False), "the tick leaves it alone for a while"
    with pytest.raises(Unavailable):
        run(driver)


def test_one_process_sweeps_at_a_time(driver: RunDriver, storage: MemoryStorage) -> None:
    large(driver, "old")
    age(storage)
    lease = leases.take(driver.database, leases.SWEEP, sweep.LEASE)
    assert lease is not None
    with pytest.raises(Conflict, match="another process"):
        run(driver)
    assert run(driver, SweepOrder(is_rehearsal=True)).swept.deleted == 1
    leases.end(driver.database, lease)
    assert run(driver).swept.deleted == 1


def test_nothing_is_deleted_while_a_month_is_being_dropped(driver: RunDriver, storage: MemoryStorage) -> None:
    large(driver, "old")
    age(storage)
    driver.rows("CREATE TABLE runs_2031_03 (LIKE runs); SELECT 1")
    assert run(driver).swept.deleted == 0
    driver.rows("DROP TABLE runs_2031_03; SELECT 1")
    assert run(driver).swept.deleted == 1


def test_an_order_that_names_nothing_is_refused(driver: RunDriver) -> None:
    with pytest.raises(NotFound):
        run(driver, SweepOrder(backend="nowhere"))
    with pytest.raises(InvalidInput):
        run(driver, SweepOrder(after="elsewhere//runs/x"))


# --- whose storage ----------------------------------------------------------------------------------------


def test_objects_without_a_mark_are_left_until_an_operator_adopts_them(
    driver: RunDriver, storage: MemoryStorage
) -> None:
    large(driver, "old")
    age(storage)
    with pytest.raises(Conflict, match="another deployment"):
        run(driver, is_own_folder=False)
    assert run(driver, SweepOrder(adopts=True), is_own_folder=False).swept.deleted == 1
    large(driver, "other")
    age(storage)
    assert run(driver, is_own_folder=False).swept.deleted == 1


def test_an_empty_backend_is_marked_by_itself(driver: RunDriver, storage: MemoryStorage) -> None:
    storage.put("mine/photo.jpg", b"x")
    run(driver, is_own_folder=False)
    assert marks.PATH in storage.objects
    large(driver, "old")
    age(storage)
    assert run(driver, is_own_folder=False).swept.deleted == 1


def test_another_database_deletes_nothing(driver: RunDriver, storage: MemoryStorage) -> None:
    run(driver)
    large(driver, "old")
    age(storage)
    driver.rows("DELETE FROM storage_sweeps RETURNING 1")
    with pytest.raises(Conflict, match="another deployment"):
        run(driver)
    storage.put(marks.PATH, b"nonsense")
    with pytest.raises(Conflict, match="another deployment"):
        run(driver)
    assert run(driver, SweepOrder(adopts=True)).swept.deleted == 1


def test_nothing_is_deleted_while_the_clocks_differ(driver: RunDriver, storage: MemoryStorage) -> None:
    large(driver, "old")
    age(storage)

    class LateStorage(MemoryStorage):
        def put(self, path: str, content: bytes, *, content_type: str = "") -> None:
            super().put(path, content)
            self.times[path] = datetime.now(UTC) - timedelta(minutes=11)

    other = LateStorage(dict(storage.objects), times=dict(storage.times))
    driver.values = values_in(other)
    with pytest.raises(Conflict, match="clocks"):
        run(driver)
    assert len(left(other)) == 1


def test_a_task_that_completes_late_keeps_its_output(driver: RunDriver, storage: MemoryStorage) -> None:
    """The output of a present attempt is not named by a row before the attempt's end."""
    run_id = driver.trigger()
    with driver.database.transaction() as tx:
        started = claim(tx, run_id, 1)
    assert started is not None
    path = f"runs/{shown(started.id)}.1/output.json"
    put_old(storage, path)
    assert run(driver).swept.kept == 1
    with driver.database.transaction() as tx:
        settle(tx, started, output={"n": 1})
    assert run(driver).swept.deleted == 1, "its row has it"


def test_a_rerun_keeps_the_files_and_outputs_that_it_takes_over(
    driver: RunDriver, storage: MemoryStorage
) -> None:
    driver.store({"a": [], "b": ["a"]}, id="two")
    first = driver.trigger("two")
    driver.finish(first, "a", "b", output=LARGE)
    made_by = driver.task_runs(first)[0].id
    file = f"runs/{shown(made_by)}.1/assets/a.pdf"
    put_old(storage, file)
    driver.rows(
        "UPDATE task_runs SET assets = CAST(:assets AS jsonb) WHERE run_id = :run AND id = :id RETURNING 1",
        assets=to_json({"a": {"path": f"local//{file}"}}),
        run=first,
        id=made_by,
    )
    request = rerunning.Rerun(first, "b")
    made = driver.database.run(
        lambda tx: rerunning.rerun(tx, driver.values, driver.tenant, request), is_one=False
    )
    reused = driver.task_runs(made.id)[0]
    drop_history(driver, first)
    age(storage)
    assert run(driver).swept.deleted == 0
    assert driver.values.load(reused.output, reused.output_path) == LARGE
    with driver.database.reading() as tx:
        assert owners.may_read(tx, driver.tenant, ObjectRef("local", file), "local")
        assert not owners.may_read(tx, "nobody", ObjectRef("local", file), "local")
    drop_history(driver, made.id)
    assert run(driver).swept.deleted == 2
