"""The calendar and the list of schedules cost what they show, however long their history is."""

from __future__ import annotations

from datetime import timedelta

import pytest
from support.factories import a_chain, register
from support.plans import plans_of, read_whole, rows_looked_at

from pipeweave.orchestrator import reading
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.starts.schedules import storing
from pipeweave.orchestrator.store.database import Transaction

TENANT = "calendar-tests"

_HISTORY = """
INSERT INTO schedule_fires (tenant_id, schedule_id, scheduled_at, fired_at, kind, outcome, reason)
SELECT :tenant, 'nightly', now() - n * interval '1 hour', now(), 'due', 'skipped', 'missed'
FROM generate_series(1, 20000) AS n
"""


@pytest.fixture
def nightly(tx: Transaction) -> None:
    """A schedule that was skipped each hour for two years."""
    register(tx, TENANT, "count")
    pipelines.store(tx, TENANT, a_chain("count"), source="api")
    storing.put(tx, TENANT, "nightly", storing.ScheduleSpec("chain", cron="30 2 * * *"))
    tx.execute(_HISTORY, {"tenant": TENANT})
    tx.execute("ANALYZE schedule_fires")


def test_a_week_long_ago_and_the_present_one_are_read_by_key(
    tx: Transaction, nightly: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for days in (0, 300):
        begin = tx.now - timedelta(days=days + 3)
        end = begin + timedelta(days=7)
        plans = plans_of(tx, lambda: reading.schedule_calendar(tx, TENANT, begin, end), monkeypatch)  # noqa: B023
        assert "schedule_fires" not in read_whole(tx, plans)
        assert rows_looked_at(plans) <= 800


def test_a_page_of_schedules_with_their_last_fires_is_read_by_key(
    tx: Transaction, nightly: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("another", "third"):
        storing.put(tx, TENANT, name, storing.ScheduleSpec("chain", cron="30 2 * * *"))
    page = reading.PageRequest(100)
    plans = plans_of(tx, lambda: reading.schedules(tx, TENANT, page, recent=20), monkeypatch)
    assert len(plans) == 2
    assert "schedule_fires" not in read_whole(tx, plans)
    assert rows_looked_at(plans) <= 50
    found = reading.schedules(tx, TENANT, page, recent=20)["items"]
    assert {each["id"]: len(each["lastFires"]) for each in found} == {"another": 0, "nightly": 20, "third": 0}
    assert reading.schedules(tx, TENANT, page)["items"][1]["lastFires"] == []


def test_what_is_behind_is_what_was_recorded_and_what_is_ahead_is_due(tx: Transaction, nightly: None) -> None:
    begin = tx.now - timedelta(days=1)
    found = reading.schedule_calendar(tx, TENANT, begin, begin + timedelta(days=3))
    behind = [each for each in found["fires"] if each["outcome"] is not None]
    assert {each["outcome"] for each in behind} == {"skipped"}
    assert len(behind) in (23, 24)
    assert len(found["fires"]) - len(behind) == 2
    assert reading.schedule_calendar(tx, TENANT, begin, tx.now, pipeline_id="another")["fires"] == []
