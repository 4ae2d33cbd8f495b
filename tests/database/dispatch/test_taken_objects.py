"""What an HTTP worker has stored is taken over by its content: who writes it again changes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.concurrency import BackgroundCall
from support.memory_storage import MemoryStorage
from support.run_driver import RunDriver
from support.sent_statements import sent_statements
from support.servers import wait_until
from support.stored_values import values_in

from pipeweave import dispatch_ids
from pipeweave.errors import InvalidReport, Unavailable
from pipeweave.orchestrator.dispatch import taken_objects, upstream
from pipeweave.orchestrator.dispatch.report import PENDING, SUCCESS, Report
from pipeweave.orchestrator.dispatch.reports import ReportReceiver
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.objects import owners, requested_sweep, sweep
from pipeweave.orchestrator.objects.requested_sweep import SweepOrder
from pipeweave.orchestrator.retention import expiry
from pipeweave.orchestrator.retention.policy import Policy
from pipeweave.orchestrator.state import asset_claims, claiming, run_headers
from pipeweave.orchestrator.store import doomed_objects
from pipeweave.orchestrator.store.database import Database
from pipeweave.settings import Settings
from pipeweave.storage import LocalStorage, ObjectRef, Storage

SECRET = "5e" * 32
LARGE = {"text": "x" * 40_000}
FILE = b"%PDF-" + bytes(range(256)) * 9


class Attempt:
    """An attempt of step `a`, before `b`, that an HTTP worker executes."""

    def __init__(self, database: Database, storage: Storage) -> None:
        self.driver = RunDriver(database, values=values_in(storage))
        self.storage = storage
        self.reports = ReportReceiver(database, self.driver.values, Settings(secret_key=SECRET))
        self.claim = self.begin()

    def begin(self) -> TaskRun:
        run_id = self.driver.begin({"a": [], "b": ["a"]})
        with self.driver.database.transaction() as tx:
            [claimed] = claiming.start(tx, run_id, [1], 1, worker="worker@host:1:ab")
        return claimed

    @property
    def id(self) -> str:
        return dispatch_ids.make(SECRET, self.claim.id, self.claim.attempt)

    @property
    def row(self) -> Any:
        return self.driver.task_runs(self.claim.run_id)[0]

    def store(self, output: Any = LARGE, file: bytes = FILE) -> Report:
        """Write output and file as a worker does; the report that names them."""
        self.storage.put(f"runs/{self.id}/output.json", json.dumps(output).encode())
        self.storage.put(f"runs/{self.id}/assets/a.pdf", file)
        asset = {"path": f"runs/{self.id}/assets/a.pdf", "size": 1, "type": "binary"}
        return Report(SUCCESS, output_path=f"runs/{self.id}/output.json", assets={"a.pdf": asset})

    def end(self, report: Report) -> Any:
        return self.reports.end(self.id, report)

    def seen_by_next(self) -> tuple[Any, bytes]:
        """The output and the file that step `b` reads."""
        with self.driver.database.statements() as tx:
            run = run_headers.load(tx, self.claim.run_id)
            assert run is not None
            [step] = upstream.page(tx, run, "b").steps
        assert isinstance(step.place, tuple)
        storage, path = self.driver.values.backends.locate(step.assets["a.pdf"]["path"])
        return self.driver.values.load(*step.place), storage.get(path)

    def own(self) -> set[str]:
        """The last parts of what lies below the path of the attempt."""
        return {each.path.rpartition("/")[2] for each in self.storage.list(f"runs/{self.id}/")}

    def sweep(self) -> int:
        return requested_sweep.run(
            self.driver.database,
            self.driver.values.backends,
            SweepOrder(),
            grace=timedelta(hours=24),
            is_own_folder=True,
        ).swept.deleted


@pytest.fixture
def attempt(fresh_database: Database) -> Attempt:
    return Attempt(fresh_database, MemoryStorage())


def drop_history(attempt: Attempt) -> None:
    """As when the month of the run was dropped."""
    for table in ("attempts", "events", "task_runs", "runs"):
        key = "id" if table == "runs" else "run_id"
        attempt.driver.rows(f"DELETE FROM {table} WHERE {key} = :id RETURNING 1", id=attempt.claim.run_id)


def age(storage: Storage) -> None:
    assert isinstance(storage, MemoryStorage)
    for path in storage.objects:
        storage.times[path] = datetime.now(UTC) - timedelta(hours=25)


def test_who_writes_its_output_again_does_not_change_what_the_next_step_reads(attempt: Attempt) -> None:
    attempt.end(attempt.store())
    attempt.store({"text": "y" * 40_000}, b"other")
    assert attempt.seen_by_next() == (LARGE, FILE)
    assert attempt.row.output_path.startswith("local//artifacts/sha256/")


def test_the_row_says_hash_and_size_as_they_are_not_as_they_were_reported(attempt: Attempt) -> None:
    attempt.end(attempt.store())
    [asset] = attempt.row.assets.values()
    digest = hashlib.sha256(FILE).hexdigest()
    assert (asset["sha256"], asset["size"], asset["type"]) == (digest, len(FILE), "binary")
    assert asset["path"] == f"local//artifacts/sha256/{digest[:2]}/{digest}"
    assert attempt.row.output_path.endswith(attempt.row.output_hash)


def test_equal_results_of_several_attempts_are_one_object_each(attempt: Attempt) -> None:
    attempt.end(attempt.store())
    before = set(attempt.storage.objects)  # type: ignore[attr-defined]
    attempt.claim = attempt.begin()
    attempt.end(attempt.store())
    assert set(attempt.storage.objects) == before  # type: ignore[attr-defined]


def test_a_small_output_goes_into_its_row_with_one_request_to_storage(attempt: Attempt) -> None:
    report = attempt.store({"n": 1})
    requests: list[int] = []
    attempt.storage.before_use = lambda: requests.append(1)  # type: ignore[attr-defined]
    attempt.end(Report(SUCCESS, output_path=report.output_path))
    assert (attempt.row.output, attempt.row.output_path, len(requests)) == ({"n": 1}, None, 1)


def test_files_cost_one_statement_and_what_has_none_costs_none(attempt: Attempt) -> None:
    counts = []
    for has_file in (False, True):
        attempt.claim = attempt.begin()
        report = attempt.store()
        plain = Report(SUCCESS, output_path=report.output_path)
        with sent_statements() as sent:
            attempt.end(report if has_file else plain)
        counts.append(len(sent))
    assert counts[1] == counts[0] + 1


@pytest.mark.parametrize("missing", ["output.json", "assets/a.pdf"])
def test_what_was_not_stored_fails_the_attempt(attempt: Attempt, missing: str) -> None:
    report = attempt.store()
    attempt.storage.delete(f"runs/{attempt.id}/{missing}")
    with pytest.raises(InvalidReport, match=missing):
        attempt.end(report)
    assert attempt.row.status in ("pending", "failed")


def test_a_file_of_work_that_goes_on_elsewhere_is_taken_over_too(attempt: Attempt) -> None:
    assets = attempt.store().assets
    attempt.end(Report(PENDING, assets=assets, suspend={"callbackUrl": True}))
    [asset] = attempt.row.assets.values()
    assert (attempt.row.status, asset["sha256"]) == ("waiting", hashlib.sha256(FILE).hexdigest())
    age(attempt.storage)
    attempt.sweep()
    assert ObjectRef.parse(asset["path"], "").path in attempt.storage.objects  # type: ignore[attr-defined]


def test_the_same_report_at_the_same_time_is_a_repeated_one(attempt: Attempt) -> None:
    """The other one has completed the attempt, and has taken the objects away, when this one reads them."""
    report = attempt.store()

    def other() -> None:
        attempt.storage.before_use = lambda: None  # type: ignore[attr-defined]
        attempt.end(report)

    attempt.storage.before_use = other  # type: ignore[attr-defined]
    assert attempt.end(report).is_repeated
    assert attempt.row.status == "completed"


def test_the_attempt_is_alive_while_its_files_are_copied(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taken_objects, "BEAT_EVERY_S", -1.0)
    before = attempt.row.heartbeat_at
    attempt.end(attempt.store())
    assert attempt.row.heartbeat_at > before


# --- who keeps what was taken over ------------------------------------------------------------------------


def test_the_objects_are_kept_as_long_as_the_run(attempt: Attempt) -> None:
    attempt.end(attempt.store())
    age(attempt.storage)
    assert attempt.sweep() == 0
    drop_history(attempt)
    assert attempt.sweep() == 2


def test_what_a_worker_writes_after_its_report_goes_with_the_sweep(attempt: Attempt) -> None:
    attempt.end(attempt.store())
    assert attempt.own() == set()
    attempt.store({"text": "y"}, b"late")
    age(attempt.storage)
    assert attempt.sweep() == 2
    assert attempt.seen_by_next() == (LARGE, FILE)


def test_a_file_is_read_by_its_tenant_alone(attempt: Attempt) -> None:
    attempt.end(attempt.store())
    [asset] = attempt.row.assets.values()
    where = ObjectRef.parse(asset["path"], "")
    with attempt.driver.database.reading() as tx:
        assert owners.may_read(tx, attempt.driver.tenant, where, "local")
        assert not owners.may_read(tx, "nobody", where, "local")


def test_a_claim_of_an_attempt_that_was_given_up_keeps_nothing(attempt: Attempt) -> None:
    report = attempt.store()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attempt.reports, "_assets", wrapped(attempt, lambda: raise_unavailable()))
        with pytest.raises(Unavailable):
            attempt.end(report)
    age(attempt.storage)
    assert attempt.sweep() == 1, "of the output, which no row names yet, the copy"
    assert attempt.own() == {"output.json", "a.pdf"}, "the worker may send its report again"
    attempt.driver.rows(
        "UPDATE task_runs SET attempt = 2, status = 'pending' WHERE run_id = :id AND attempt = 1 RETURNING 1",
        id=attempt.claim.run_id,
    )
    assert attempt.sweep() == 3


def wrapped(attempt: Attempt, after: Callable[[], None]) -> Callable[..., Any]:
    take = attempt.reports._assets

    def taking(*arguments: Any) -> Any:
        made = take(*arguments)
        after()
        return made

    return taking


def raise_unavailable() -> None:
    raise Unavailable("PostgreSQL is away")


class WatchedStorage(MemoryStorage):
    """Calls `meanwhile` before its first deletion, after the sweep's last look at the object."""

    meanwhile: Iterator[Callable[[], None]] = iter(())

    def delete(self, path: str) -> None:
        if path.startswith("artifacts/"):
            next(self.meanwhile, lambda: None)()
        super().delete(path)


def test_a_file_that_comes_again_while_the_sweep_deletes_it_is_kept(fresh_database: Database) -> None:
    """The sweep has looked for the last time; then another attempt has an equal file, and it is deleted."""
    storage = WatchedStorage()
    attempt = Attempt(fresh_database, storage)
    attempt.reports.values._is_doomed = lambda where: doomed_objects.is_doomed(fresh_database, where)
    attempt.end(attempt.store({"n": 1}))
    [asset] = attempt.row.assets.values()
    path = ObjectRef.parse(asset["path"], "").path
    drop_history(attempt)
    age(storage)
    attempt.claim = attempt.begin()
    report = attempt.store({"n": 1})
    reporting = BackgroundCall(lambda: attempt.end(report))

    def meanwhile() -> None:
        reporting.__enter__()
        wait_until(lambda: path not in storage.times, what="the file was not stored again")

    storage.meanwhile = iter([meanwhile])
    assert attempt.sweep() == 2, "the file, and the output of the attempt that is gone"
    assert not reporting.result.is_repeated
    assert attempt.seen_by_next() == ({"n": 1}, FILE)


def test_a_claim_that_came_since_the_page_was_looked_up_keeps_the_file(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt.end(attempt.store())
    [asset] = attempt.row.assets.values()
    drop_history(attempt)
    age(attempt.storage)
    attempt.claim = attempt.begin()
    doom = sweep._Doom.__enter__

    def late(self: sweep._Doom) -> float:
        with attempt.driver.database.statements() as tx:
            asset_claims.add(tx, attempt.driver.tenant, attempt.claim, [asset["path"]])
        return doom(self)

    monkeypatch.setattr(sweep._Doom, "__enter__", late)
    assert attempt.sweep() == 1, "the output"
    assert ObjectRef.parse(asset["path"], "").path in attempt.storage.objects  # type: ignore[attr-defined]


def test_claims_go_after_their_runs_and_stay_while_their_files_are_reused(attempt: Attempt) -> None:
    attempt.end(attempt.store())
    database, policy = attempt.driver.database, Policy(runs=timedelta(days=1))

    def purged(later: timedelta) -> int:
        with database.transaction() as tx:
            tx.now += later
            return expiry.run_once(tx, policy).asset_claims

    assert purged(timedelta(days=100)) == 0, "its run is there, whose month should have gone"
    row = attempt.row
    drop_history(attempt)
    other = attempt.driver.task_runs(attempt.begin().run_id)[0]
    reuse = """UPDATE task_runs SET cached_from = :origin, assets = CAST(:assets AS jsonb)
        WHERE run_id = :run_id AND id = :id RETURNING 1"""
    values = {"origin": row.id, "assets": json.dumps(row.assets), "run_id": other.run_id, "id": other.id}
    attempt.driver.rows(reuse, **values)
    age(attempt.storage)
    assert (purged(timedelta(days=100)), attempt.sweep()) == (0, 1), "the output goes"
    attempt.driver.rows(reuse, **values | {"origin": None, "assets": None})
    assert (purged(timedelta(0)), purged(timedelta(days=100)), attempt.sweep()) == (0, 1, 1)


# --- crashes ----------------------------------------------------------------------------------------------


def kill_me() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed(report: Callable[[], Any]) -> None:
    """Call it in a process that is killed meanwhile."""
    child = os.fork()
    if child == 0:
        try:
            report()
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


@pytest.mark.parametrize("is_committed", [False, True])
def test_a_process_that_is_killed_leaves_a_report_that_can_be_sent_again(
    fresh_database: Database, tmp_path: Any, is_committed: bool
) -> None:
    """Killed between copy and commit, or between commit and the deletion of the originals."""
    attempt = Attempt(fresh_database, LocalStorage(tmp_path))
    report = attempt.store()

    def dying() -> None:
        own = Database(fresh_database.url)
        reports = ReportReceiver(own, attempt.driver.values, Settings(secret_key=SECRET))
        if is_committed:
            taken_objects.TakenObjects.remove_originals = lambda self: kill_me()  # type: ignore[method-assign]
        else:
            reports._assets = wrapped(attempt, kill_me)  # type: ignore[method-assign]
        reports.end(attempt.id, report)

    fresh_database.dispose()
    killed(dying)
    assert attempt.row.status == ("completed" if is_committed else "running")
    assert attempt.own() == {"output.json", "a.pdf"}
    assert attempt.end(report).is_repeated is is_committed
    assert attempt.row.status == "completed"
    assert attempt.seen_by_next() == (LARGE, FILE)
