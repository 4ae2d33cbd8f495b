"""For which share of the time a service had a worker, read from the rows of its workers."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.factories import a_worker, register

from pipeweave.orchestrator import reading
from pipeweave.orchestrator.reading import worker_uptime
from pipeweave.orchestrator.store.database import Transaction

TENANT = "worker-uptime-tests"

_SPAN = """
UPDATE workers SET started_at = now() - CAST(:began AS interval),
    heartbeat_at = now() - CAST(:ended AS interval),
    stopped_at = CASE WHEN :how = 'lives' THEN NULL ELSE now() - CAST(:ended AS interval) END,
    lost_at = CASE WHEN :how = 'lost' THEN now() - CAST(:ended AS interval) END
WHERE id = :id
"""


@pytest.fixture(autouse=True)
def service(tx: Transaction) -> None:
    register(tx, TENANT, "count")


def worked(tx: Transaction, began: float, ended: float, how: str = "stopped") -> None:
    """A worker began and ended so many hours ago."""
    worker = a_worker(tx, TENANT, "count")
    tx.execute(
        _SPAN,
        {"id": worker, "began": timedelta(hours=began), "ended": timedelta(hours=ended), "how": how},
    )


def share(tx: Transaction) -> float:
    (uptime,) = worker_uptime.uptimes(tx, TENANT)
    return round(uptime.share, 4)


def test_a_service_whose_workers_followed_each_other_was_always_up(tx: Transaction) -> None:
    worked(tx, 100, 40)
    worked(tx, 50, 0, "lives")
    assert share(tx) == 1.0


def test_the_time_between_two_workers_is_none_of_uptime(tx: Transaction) -> None:
    worked(tx, 100, 60)
    worked(tx, 50, 0, "lives")
    assert share(tx) == 0.9
    (shown,) = reading.service_uptimes(tx, TENANT)
    assert shown["upMs"] == pytest.approx(90 * 3_600_000)


def test_workers_at_the_same_time_count_once(tx: Transaction) -> None:
    worked(tx, 100, 50)
    worked(tx, 90, 80)
    worked(tx, 75, 50)
    worked(tx, 25, 0, "lives")
    assert share(tx) == 0.75


def test_a_lost_worker_was_there_until_it_was_heard_last_and_the_service_is_down_since(
    tx: Transaction,
) -> None:
    worked(tx, 100, 25, "lost")
    assert share(tx) == 0.75


def test_a_worker_that_falls_silent_is_down_before_anybody_has_declared_it_lost(tx: Transaction) -> None:
    worked(tx, 100, 10, "lives")
    assert share(tx) == 0.9


def test_a_service_that_was_given_up_in_order_is_not_down(tx: Transaction) -> None:
    worked(tx, 100, 90, "lost")
    worked(tx, 80, 20)
    assert share(tx) == 0.875


def test_what_is_older_than_thirty_days_does_not_count(tx: Transaction) -> None:
    worked(tx, 24 * 60, 24 * 40)
    worked(tx, 24 * 35, 24 * 3)
    worked(tx, 24 * 1.5, 0, "lives")
    assert share(tx) == 0.95


def test_a_tenant_sees_no_other_one_s_uptime(tx: Transaction) -> None:
    worked(tx, 10, 0, "lives")
    assert worker_uptime.uptimes(tx, "another-tenant") == []
    assert TENANT in {each.tenant for each in worker_uptime.uptimes(tx, None)}


HOURS = st.integers(0, 200)


@given(st.lists(st.tuples(HOURS, HOURS).filter(lambda span: span[0] > span[1]), min_size=1, max_size=6))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_share_is_that_of_the_hours_with_a_worker(tx: Transaction, spans: list[tuple[int, int]]) -> None:
    tx.execute("DELETE FROM workers WHERE tenant_id = :tenant", {"tenant": TENANT})
    for began, ended in spans:
        worked(tx, began, ended)
    up = {hour for began, ended in spans for hour in range(ended, began)}
    whole = max(began for began, _ in spans) - min(ended for _, ended in spans)
    assert share(tx) == pytest.approx(len(up) / whole, abs=0.001)
