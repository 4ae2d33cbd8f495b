"""The metrics of waits say what waits, what is late, and how late waits have ended."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from support.child_runs import child
from support.counted_events import fold_all
from support.run_driver import Clock, RunDriver
from support.waiting_runs import WaitingRuns

from pipeweave.orchestrator.metrics import catalogue, ended_work, open_waits, open_work
from pipeweave.orchestrator.metrics.catalogue import Family
from pipeweave.orchestrator.metrics.samples import Histogram, Samples
from pipeweave.orchestrator.runs import pausing
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.waits import due
from pipeweave.spec.wait_steps import Approval, SignalWait, Sleep

DAY_MS = 86_400_000


@pytest.fixture
def runs(isolated_driver: RunDriver) -> WaitingRuns:
    return WaitingRuns(isolated_driver)


def read(database: Database, part: Any) -> Samples:
    with database.reading() as tx:
        samples: Samples = part(tx)
    return samples


def of(samples: Samples, family: Family, *labels: str) -> float:
    return samples.values.get(family, {}).get(labels, 0.0)


def late(runs: WaitingRuns) -> dict[str, Histogram]:
    """How late waits ended, by their kind."""
    fold_all(runs.driver.database)
    shown = read(runs.driver.database, ended_work.read).histograms.get(catalogue.WAIT_WAKEUP, {})
    return {kind: histogram for (_, kind), histogram in shown.items()}


def test_a_timer_that_is_looked_at_late_is_counted_as_late(runs: WaitingRuns, clock: Clock) -> None:
    run_id = runs.begin({"sleep": Sleep(ms=DAY_MS)})
    clock.ahead = timedelta(days=1, seconds=40)
    assert runs.look(run_id, "sleep") == 1
    [(kind, histogram)] = late(runs).items()
    assert (kind, histogram.counts[-1]) == ("timer", 1)
    assert histogram.total == pytest.approx(40, abs=20)
    [event] = [
        each for each in runs.driver.events(run_id, "task_run.completed") if each.data.get("wait") == "timer"
    ]
    assert event.data["waitedMs"] >= DAY_MS
    # Nothing is counted twice.
    assert late(runs)["timer"].counts[-1] == 1


def test_what_a_signal_waited_for_its_look_is_counted_by_kind(runs: WaitingRuns, clock: Clock) -> None:
    run_id = runs.begin({"paid": SignalWait(("paid",))})
    runs.send(run_id, "paid", 1, look=False)
    clock.ahead = timedelta(minutes=1)
    assert due.run_once(runs.driver.database) == 1
    assert late(runs)["signal"].total == pytest.approx(60, abs=20)


@pytest.mark.parametrize("has_default", [True, False])
def test_a_wait_that_ends_by_its_timeout_is_late_since_then(
    runs: WaitingRuns, clock: Clock, has_default: bool
) -> None:
    more: dict[str, Any] = {"default": 1} if has_default else {}
    run_id = runs.begin({"ok": Approval("Ship?", timeout_ms=DAY_MS, **more)})
    clock.ahead = timedelta(days=1, seconds=30)
    assert runs.look(run_id, "ok") == 1
    assert late(runs)["approval"].total == pytest.approx(30, abs=20)


def test_a_child_run_ends_its_wait_and_is_counted(isolated_driver: RunDriver, runs: WaitingRuns) -> None:
    driver = isolated_driver
    driver.store({"work": []}, id="inner")
    driver.store_steps(child("call", "inner"))
    run_id = driver.trigger()
    shown = read(driver.database, open_work.runs)
    assert of(shown, catalogue.CHILD_RUNS, driver.tenant, "running") == 1
    assert of(shown, catalogue.OPEN_RUNS, driver.tenant, "driven", "running") == 1
    assert of(shown, catalogue.OPEN_RUNS, driver.tenant, "inner", "running") == 0
    with driver.database.transaction() as tx:
        pausing.pause(tx, driver.tenant, run_id)
    shown = read(driver.database, open_work.runs)
    assert of(shown, catalogue.CHILD_RUNS, driver.tenant, "paused") == 1
    with driver.database.transaction() as tx:
        pausing.resume(tx, driver.tenant, run_id)
    [inner] = driver.rows("SELECT id FROM runs WHERE parent_run_id = :id", id=run_id)
    driver.finish(inner.id, "work")
    assert late(runs)["child"].counts[-1] == 1


def test_what_is_overdue_and_what_expires_are_told_apart(runs: WaitingRuns) -> None:
    runs.begin({"ok": Approval("Ship?", timeout_ms=DAY_MS), "sleep": Sleep(ms=DAY_MS)})
    driver = runs.driver
    shown = read(driver.database, open_waits.read)
    assert of(shown, catalogue.WAITS_OVERDUE, driver.tenant) == 0
    assert of(shown, catalogue.APPROVALS_EXPIRING, driver.tenant) == 0
    with driver.database.transaction() as tx:
        _age(tx)
    shown = read(driver.database, open_waits.read)
    assert of(shown, catalogue.WAITS_OVERDUE, driver.tenant) == 1
    assert of(shown, catalogue.WAITS_OVERDUE_OLDEST, driver.tenant) == pytest.approx(60, abs=30)
    assert of(shown, catalogue.APPROVALS_EXPIRING, driver.tenant) == 1


def _age(tx: Transaction) -> None:
    tx.execute("UPDATE waits SET due_at = now() - interval '1 minute' WHERE kind = 'timer'")
    tx.execute("UPDATE waits SET created_at = now() - interval '5 days' WHERE kind = 'approval'")
