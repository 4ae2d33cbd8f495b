"""Bulk changes: many runs that a filter chooses, changed in the tick."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from support.concurrency import BackgroundCall, wait_for_lock
from support.failed_runs import CHAIN, TWO, called, failed_run, still_open
from support.inline_worker import InlineWorker
from support.killed_ticks import kill_at
from support.run_driver import Clock, RunDriver

from pipeweave import ids
from pipeweave.errors import Conflict, NotFound, PartlyFailed, Unavailable
from pipeweave.orchestrator.kept.run_filter import RunFilter
from pipeweave.orchestrator.operations import bulk_changes, choosing, loop, run_changes
from pipeweave.orchestrator.operations.bulk_requests import BulkAction, BulkRequest, Selection
from pipeweave.orchestrator.reading import bulk_changes as queries
from pipeweave.orchestrator.runs import pausing, triggering
from pipeweave.orchestrator.store.keyset import Document, PageRequest
from pipeweave.orchestrator.store.lock_timeout import LOCK_TIMEOUT_MS
from pipeweave.orchestrator.store.values import Values

LONG = {"a": [], "b": ["a"]}


@pytest.fixture(autouse=True)
def one_tick_does_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a tick's time may be over before a bulk change is."""
    monkeypatch.setattr(loop, "MAX_SECONDS_PER_TICK", 600)


def asked(action: BulkAction, *, ids: tuple[UUID, ...] | None = None, **options: Any) -> BulkRequest:
    """A request; what is no option of it is a filter."""
    own = ("reason", "from_step", "version", "most", "per_second", "token", "by")
    given = {name: options.pop(name) for name in own if name in options}
    return BulkRequest(action, Selection(RunFilter(**options), ids), **given)


def create(driver: RunDriver, request: BulkRequest) -> UUID:
    with driver.database.reading() as tx:
        counted = choosing.count(tx, driver.tenant, request.action, request.selection)
    return driver.database.run(lambda tx: bulk_changes.create(tx, driver.tenant, request, counted))


def work_off(driver: RunDriver) -> int:
    return run_changes.run_once(driver.database, driver.values)


def progress(driver: RunDriver, bulk: UUID) -> Document:
    with driver.database.reading() as tx:
        return queries.bulk_change(tx, driver.tenant, bulk)


def numbers(driver: RunDriver, bulk: UUID) -> tuple[str, int, int, int]:
    shown = progress(driver, bulk)
    return shown["status"], shown["total"], shown["changed"], shown["skipped"]


def listed(driver: RunDriver, bulk: UUID, outcome: str | None = None) -> list[Any]:
    with driver.database.reading() as tx:
        items: list[Any] = queries.run_list(tx, driver.tenant, bulk, PageRequest(), outcome=outcome)["items"]
        return items


def some_runs(driver: RunDriver, number: int, id: str = "driven") -> list[UUID]:
    driver.store(LONG, id=id)
    return [driver.trigger(id) for _ in range(number)]


def status_of(driver: RunDriver, runs: list[UUID]) -> list[str]:
    return [driver.run(each).status for each in runs]


# --- what each action does --------------------------------------------------------------------------------


def test_a_cancel_ends_the_open_runs_that_match_and_says_so(worker: InlineWorker) -> None:
    driver = worker.driver
    meant, other = some_runs(driver, 3), some_runs(driver, 1, "other")
    request = asked(BulkAction.CANCEL, pipeline_id=("driven",), reason="wrong day", by="alice")
    bulk = create(driver, request)
    assert numbers(driver, bulk) == ("running", 3, 0, 0)
    assert work_off(driver) == 3
    assert numbers(driver, bulk) == ("completed", 3, 3, 0)
    assert status_of(driver, meant) == ["cancelled"] * 3
    assert status_of(driver, other) != ["cancelled"]
    assert driver.run(meant[0]).error["message"] == "wrong day"
    assert [each["runId"] for each in listed(driver, bulk)] == [ids.show(ids.RUN, each) for each in meant]
    shown = progress(driver, bulk)
    assert (shown["filter"], shown["reason"], shown["createdBy"]) == (
        {"pipelineId": ["driven"]},
        "wrong day",
        "alice",
    )
    assert shown["durationMs"] is not None


def test_a_cancel_takes_the_newest_first(worker: InlineWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then those that have not begun never begin, although the end of others gives them their places."""
    monkeypatch.setattr(loop, "MAX_SECONDS_PER_TICK", 0)
    driver = worker.driver
    runs = some_runs(driver, 3)
    create(driver, asked(BulkAction.CANCEL, pipeline_id=("driven",)))
    work_off(driver)
    assert [each == "cancelled" for each in status_of(driver, runs)] == [False, False, True]
    while work_off(driver):
        pass
    assert status_of(driver, runs) == ["cancelled"] * 3


def test_pause_and_resume_come_to_those_that_they_concern(worker: InlineWorker) -> None:
    driver = worker.driver
    runs = some_runs(driver, 3)
    driver.database.run(lambda tx: pausing.pause(tx, driver.tenant, runs[0], by="bob"))
    bulk = create(driver, asked(BulkAction.PAUSE, ids=tuple(runs), by="alice"))
    work_off(driver)
    assert numbers(driver, bulk) == ("completed", 2, 2, 0)
    assert status_of(driver, runs) == ["paused"] * 3
    bulk = create(driver, asked(BulkAction.RESUME, ids=tuple(runs), by="alice"))
    work_off(driver)
    assert numbers(driver, bulk) == ("completed", 3, 3, 0)
    assert status_of(driver, runs) == ["running"] * 3


def test_a_rerun_begins_a_new_run_for_each_and_not_for_those(worker: InlineWorker) -> None:
    driver = worker.driver
    old = failed_run(worker, CHAIN, "b")
    worker.fails = {}
    bulk = create(driver, asked(BulkAction.RERUN, status=("failed",), from_step="b", by="alice"))
    work_off(driver)
    assert numbers(driver, bulk) == ("completed", 1, 1, 0)
    [row] = listed(driver, bulk)
    new = ids.read(ids.RUN, row["newRunId"])
    assert (driver.run(new).rerun_of, driver.run(new).triggered_actor) == (old, "alice")
    worker.consume_all()
    assert (driver.run(new).status, called(worker)["a"]) == ("completed", 1)
    assert work_off(driver) == 0


def test_a_retry_takes_the_dead_letters_of_the_runs_however_many(
    worker: InlineWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeweave.orchestrator.operations.run_changes.LETTERS_AT_ONCE", 1)
    driver = worker.driver
    run = failed_run(worker, TWO, "a", "b", failureMode="continue")
    fine = failed_run(worker, TWO, id="fine")
    assert len(still_open(driver, run)) == 2
    worker.fails = {}
    bulk = create(driver, asked(BulkAction.RETRY, created_after=None, status=("failed", "partial")))
    work_off(driver)
    assert numbers(driver, bulk) == ("completed", 1, 1, 0)
    worker.consume_all()
    assert status_of(driver, [run, fine]) == ["completed", "completed"]


def test_runs_that_refuse_are_skipped_with_the_reason(worker: InlineWorker) -> None:
    driver = worker.driver
    failed_run(worker, CHAIN, "b", id="one")
    failed_run(worker, TWO, "b", id="two")
    bulk = create(driver, asked(BulkAction.RERUN, status=("failed",), from_step="c"))
    other = create(driver, asked(BulkAction.RERUN, status=("failed",), from_step="nowhere"))
    work_off(driver)
    assert progress(driver, bulk)["changed"] == 2
    assert numbers(driver, other) == ("completed", 2, 0, 2)
    [first, second] = listed(driver, other, "skipped")
    assert (first["outcome"], first["errorCode"]) == ("skipped", "INVALID_INPUT")
    assert "no step 'nowhere'" in second["error"]
    assert listed(driver, other, "changed") == []


def test_a_fault_in_one_run_does_not_keep_the_others_from_their_turn(
    worker: InlineWorker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    driver = worker.driver
    runs = some_runs(driver, 3)
    cancel = triggering.cancel

    def break_for_one(tx: Any, tenant: str, run_id: UUID, **options: Any) -> None:
        if run_id == runs[1]:
            raise KeyError("oops")
        cancel(tx, tenant, run_id, **options)

    monkeypatch.setattr(triggering, "cancel", break_for_one)
    bulk = create(driver, asked(BulkAction.CANCEL, pipeline_id=("driven",)))
    work_off(driver)
    assert numbers(driver, bulk) == ("completed", 3, 2, 1)
    assert [each["errorCode"] for each in listed(driver, bulk, "skipped")] == ["INTERNAL_ERROR"]
    assert "bulk.run_failed" in caplog.text


# --- which runs -------------------------------------------------------------------------------------------


def test_filters_choose_as_in_the_list_of_runs(worker: InlineWorker) -> None:
    driver = worker.driver
    driver.store(LONG)
    acme = driver.trigger(input={"file": "Acme.csv"}, metadata={"customer": "acme"})
    driver.trigger(metadata={"customer": "other"})

    def matched(action: BulkAction = BulkAction.CANCEL, **filters: Any) -> int:
        with driver.database.reading() as tx:
            return choosing.count(tx, driver.tenant, action, Selection(RunFilter(**filters))).matched

    assert matched() == 2
    assert matched(metadata={"customer": "acme"}) == 1
    assert matched(text="acme.csv") == 1
    assert matched(text=ids.show(ids.RUN, acme)) == 1
    assert matched(task_id="noop") == 2
    assert matched(task_id="limited") == 0
    assert matched(version=2) == 0
    assert matched(pipeline_id=("driven", "other")) == 2
    assert matched(triggered_kind="schedule") == 0
    assert matched(status=("completed", "failed")) == 0, "those have ended"
    assert matched(BulkAction.RERUN) == 0
    assert matched(BulkAction.RERUN, pipeline_id=("driven",)) == 0
    now = driver.run(acme).created_at
    assert matched(created_after=now - timedelta(hours=1), created_before=now + timedelta(hours=1)) == 2
    assert matched(created_before=now - timedelta(hours=1)) == 0


def test_a_count_says_which_statuses_and_when_it_is_not_complete(
    worker: InlineWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = worker.driver
    runs = some_runs(driver, 4)
    driver.database.run(lambda tx: pausing.pause(tx, driver.tenant, runs[0]))
    everything = Selection(RunFilter(pipeline_id=("driven",)))

    def counted() -> choosing.CountedRuns:
        with driver.database.reading() as tx:
            return choosing.count(tx, driver.tenant, BulkAction.CANCEL, everything)

    found = counted()
    assert (found.matched, found.by_status, found.is_complete) == (4, {"running": 3, "paused": 1}, True)
    assert found.sample == list(reversed(runs))
    monkeypatch.setattr(choosing, "MOST_RUNS", 4)
    assert counted().is_complete
    monkeypatch.setattr(choosing, "MOST_RUNS", 3)
    assert (counted().matched, counted().is_complete) == (3, False)
    monkeypatch.setattr(choosing, "LONG_SLICE", 1)
    monkeypatch.setattr(choosing, "MAX_SECONDS", 0)
    assert (counted().matched, counted().is_complete) == (1, False)


def test_slices_without_a_match_are_passed(worker: InlineWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "SLICE", 1)
    driver = worker.driver
    driver.store(LONG)
    runs = [driver.trigger(metadata={"n": str(number % 2)}) for number in range(4)]
    bulk = create(driver, asked(BulkAction.CANCEL, metadata={"n": "1"}))
    work_off(driver)
    assert numbers(driver, bulk) == ("completed", 2, 2, 0)
    assert [each == "cancelled" for each in status_of(driver, runs)] == [False, True, False, True]


def test_nothing_that_matches_is_over_at_once(worker: InlineWorker) -> None:
    bulk = create(worker.driver, asked(BulkAction.CANCEL, pipeline_id=("nowhere",)))
    assert numbers(worker.driver, bulk) == ("completed", 0, 0, 0)
    assert work_off(worker.driver) == 0


# --- limits, pace, stopping -------------------------------------------------------------------------------


def test_it_changes_no_more_than_it_may(worker: InlineWorker) -> None:
    driver = worker.driver
    runs = some_runs(driver, 3)
    bulk = create(driver, asked(BulkAction.CANCEL, pipeline_id=("driven",), most=2))
    work_off(driver)
    assert numbers(driver, bulk) == ("completed", 3, 2, 0)
    assert status_of(driver, runs).count("cancelled") == 2


def test_it_keeps_its_rate(isolated_driver: RunDriver, clock: Clock) -> None:
    driver = isolated_driver
    runs = some_runs(driver, 5)
    create(driver, asked(BulkAction.CANCEL, pipeline_id=("driven",), per_second=2))
    done = []
    for _ in range(5):
        done.append(work_off(driver))
        clock.ahead += timedelta(seconds=1)
    assert sum(done) == 5
    assert max(done[1:]) <= 2, f"{done}: two a second, and at first what a late tick makes up for"
    assert status_of(driver, runs) == ["cancelled"] * 5


def test_a_stop_leaves_the_rest_as_it_is(worker: InlineWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = worker.driver
    runs = some_runs(driver, 3)
    bulk = create(driver, asked(BulkAction.CANCEL, pipeline_id=("driven",)))
    cancel = triggering.cancel

    def cancel_and_stop(tx: Any, tenant: str, run_id: UUID, **options: Any) -> None:
        if run_id == runs[1]:
            driver.database.run(lambda other: bulk_changes.cancel(other, driver.tenant, bulk))
        cancel(tx, tenant, run_id, **options)

    monkeypatch.setattr(triggering, "cancel", cancel_and_stop)
    work_off(driver)
    assert numbers(driver, bulk) == ("cancelled", 3, 1, 0)
    assert [each == "cancelled" for each in status_of(driver, runs)] == [False, False, True]
    with pytest.raises(Conflict, match="already cancelled"):
        driver.database.run(lambda tx: bulk_changes.cancel(tx, driver.tenant, bulk))
    with pytest.raises(NotFound):
        driver.database.run(lambda tx: bulk_changes.cancel(tx, "another", bulk))


def test_the_same_key_is_the_same_bulk_change(worker: InlineWorker) -> None:
    driver = worker.driver
    some_runs(driver, 1)
    first = create(driver, asked(BulkAction.CANCEL, pipeline_id=("driven",), token="k"))
    work_off(driver)
    assert create(driver, asked(BulkAction.CANCEL, pipeline_id=("driven",), token="k")) == first
    with pytest.raises(Conflict, match="asked for something else"):
        create(driver, asked(BulkAction.PAUSE, pipeline_id=("driven",), token="k"))


def test_two_requests_at_once_with_one_key_are_one(worker: InlineWorker) -> None:
    driver = worker.driver
    some_runs(driver, 1)
    request = asked(BulkAction.CANCEL, pipeline_id=("driven",), token="k")
    with driver.database.transaction() as tx:
        first = bulk_changes.create(tx, driver.tenant, request, choosing.CountedRuns(1))
        other = BackgroundCall(lambda: create(driver, request))
        other.__enter__()
        wait_for_lock(driver.database)
    assert other.result == first
    work_off(driver)


# --- crashes and races ------------------------------------------------------------------------------------


def test_two_ticks_at_once_change_and_count_each_run_once(worker: InlineWorker) -> None:
    driver = worker.driver
    failed_run(worker, CHAIN, "b", id="old")
    for _ in range(4):
        failed = driver.trigger("old")
        worker.consume_all()
    assert driver.run(failed).status == "failed"
    bulk = create(driver, asked(BulkAction.RERUN, status=("failed",)))
    # Both have the same run before them: the first holds it, uncommitted, when the second comes to it.
    hold = "SELECT id FROM bulk_changes WHERE id = :id FOR UPDATE"
    with driver.database.transaction() as tx:
        tx.execute(hold, {"id": bulk})
        ticks = [BackgroundCall(lambda: work_off(driver)) for _ in range(2)]
        for each in ticks:
            each.__enter__()
        wait_for_lock(driver.database, 2)
    assert sum(each.result for each in ticks) == 5
    while work_off(driver):
        pass
    assert numbers(driver, bulk) == ("completed", 5, 5, 0)
    made = driver.rows("SELECT id FROM runs WHERE tenant_id = :t AND rerun_of IS NOT NULL", t=driver.tenant)
    assert len(made) == 5


def test_a_process_that_is_killed_loses_nothing_and_counts_nothing_twice(worker: InlineWorker) -> None:
    driver = worker.driver
    runs = some_runs(driver, 4)
    bulk = create(driver, asked(BulkAction.CANCEL, pipeline_id=("driven",)))
    # The process changes the two newest, and waits at this one with nothing recorded of its batch.
    kill_at(driver.database, "run_changes", runs[1])
    assert numbers(driver, bulk) == ("running", 4, 2, 0)
    work_off(driver)
    assert numbers(driver, bulk) == ("completed", 4, 4, 0)
    assert status_of(driver, runs) == ["cancelled"] * 4
    assert len(listed(driver, bulk, "changed")) == 4


def test_a_run_that_another_transaction_holds_is_tried_again(
    worker: InlineWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert LOCK_TIMEOUT_MS > 0
    monkeypatch.setattr("pipeweave.orchestrator.store.lock_timeout.LOCK_TIMEOUT_MS", 20)
    driver = worker.driver
    runs = some_runs(driver, 2)
    bulk = create(driver, asked(BulkAction.CANCEL, pipeline_id=("driven",)))
    with driver.database.transaction() as tx:
        tx.execute("SELECT id FROM runs WHERE id = :id FOR UPDATE", {"id": runs[0]})
        with pytest.raises(PartlyFailed):
            run_changes.run_once(driver.database.impatient(), driver.values)
    assert numbers(driver, bulk) == ("running", 2, 1, 0)
    work_off(driver)
    assert numbers(driver, bulk) == ("completed", 2, 2, 0)


def test_an_action_that_only_a_later_version_knows_does_not_keep_the_others(worker: InlineWorker) -> None:
    """While processes of two versions run, the tick may be one of the earlier version."""
    driver = worker.driver
    runs = some_runs(driver, 2)
    request = asked(BulkAction.CANCEL, pipeline_id=("driven",))
    later, known = create(driver, request), create(driver, request)
    rename = "UPDATE bulk_changes SET action = 'archive' WHERE id = :id"
    driver.database.run(lambda tx: tx.execute(rename, {"id": later}))
    with pytest.raises(PartlyFailed):
        work_off(driver)
    assert numbers(driver, known) == ("completed", 2, 2, 0)
    assert status_of(driver, runs) == ["cancelled"] * 2
    driver.database.run(lambda tx: bulk_changes.cancel(tx, driver.tenant, later))


def test_storage_that_is_away_delays_a_rerun(worker: InlineWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = worker.driver
    failed_run(worker, CHAIN, "b", input={"much": "x" * 40_000})
    bulk = create(driver, asked(BulkAction.RERUN, status=("failed",)))

    def away(*_: Any) -> Any:
        raise Unavailable("storage does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(Values, "load", away)
        assert work_off(driver) == 0
    assert numbers(driver, bulk) == ("running", 1, 0, 0)
    work_off(driver)
    assert numbers(driver, bulk) == ("completed", 1, 1, 0)
