"""What a forecast is made from: the last completed runs of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.run_driver import Clock, RunDriver

from pipeweave.orchestrator.reading import step_durations as reading
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.store.database import Database
from pipeweave.spec.forecast import PastRun, forecast


@pytest.fixture
def driver(database: Database, clock: Clock) -> Iterator[RunDriver]:
    moved = Database(database.url, now=clock)
    made = RunDriver(moved)
    made.store({"a": [], "b": ["a"]}, id="p")
    yield made
    moved.dispose()


def past(driver: RunDriver) -> list[PastRun]:
    with driver.database.reading() as tx:
        return reading.past_runs(tx, driver.tenant, pipelines.get(tx, driver.tenant, "p").spec)


def complete(driver: RunDriver, *steps: str, **options: Any) -> None:
    driver.finish(driver.trigger("p", **options), *(steps or ("a", "b")))


def test_only_completed_runs_count_the_newest_first(driver: RunDriver, clock: Clock) -> None:
    assert past(driver) == []
    complete(driver)
    driver.trigger("p")
    complete(driver, "a")
    complete(driver)
    found = past(driver)
    assert [set(each.steps) for each in found] == [{"a", "b"}, {"a", "b"}]
    assert all(each.took_ms >= 0 for each in found)


def test_a_step_counts_where_it_ran_the_same_task(driver: RunDriver) -> None:
    complete(driver)
    driver.store({"a": [], "b": ["a"], "c": ["a"]}, id="p", tasks={"b": "limited"})
    [run] = past(driver)
    assert set(run.steps) == {"a"}


def test_durations_and_pauses(driver: RunDriver) -> None:
    complete(driver)
    driver.rows(
        """UPDATE task_runs SET finished_at = started_at + interval '1500 ms'
        WHERE tenant_id = :t AND step_id = 'a' RETURNING 1""",
        t=driver.tenant,
    )
    driver.rows(
        """UPDATE runs SET finished_at = started_at + interval '9 s', paused_ms = 2000
        WHERE tenant_id = :t RETURNING 1""",
        t=driver.tenant,
    )
    [run] = past(driver)
    assert (run.took_ms, run.steps["a"]) == (7000, 1500)


def test_skipped_steps_and_items_of_maps(driver: RunDriver) -> None:
    driver.store({"a": [], "m": ["a"]}, id="p", maps={"m": [1, 2, 3]})
    run = driver.trigger("p")
    driver.finish(run, "a")
    rows = driver.rows("SELECT count(*) AS n FROM task_runs WHERE run_id = :r AND kind = 'item'", r=run)
    assert rows[0].n == 3
    driver.rows(
        """UPDATE task_runs SET status = 'completed', started_at = now(), finished_at = now(),
            worker = 'w', map_count = CASE WHEN kind = 'map' THEN 3 END
        WHERE run_id = :r AND finished_at IS NULL RETURNING 1""",
        r=run,
    )
    driver.rows("UPDATE runs SET status = 'completed', finished_at = now() WHERE id = :r RETURNING 1", r=run)
    [found] = past(driver)
    assert set(found.steps) == {"a", "m"}


def test_a_large_pipeline_is_forecast_from_fewer_runs(
    driver: RunDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        complete(driver)
    monkeypatch.setattr(reading, "FEW_RUNS", 1)
    monkeypatch.setattr(reading, "MOST_ROWS", 6)
    assert len(past(driver)) == 3
    monkeypatch.setattr(reading, "WINDOW", 2)
    assert len(past(driver)) == 2


def test_the_forecast_of_real_runs(driver: RunDriver) -> None:
    for _ in range(3):
        complete(driver)
    with driver.database.reading() as tx:
        spec = pipelines.get(tx, driver.tenant, "p").spec
    shown = forecast(spec, past(driver)).to_json()
    assert (shown["runs"], shown["tooFewRuns"], shown["criticalPath"]) == (3, True, ["a", "b"])
