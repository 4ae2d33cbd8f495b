"""A rate of requests over several processes: counted by each, shared once a second, exact in the end."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.concurrency import call_concurrently

from pipeweave.api.http.request_rates import SYNC_EVERY_S, RequestRates
from pipeweave.errors import QuotaExceeded
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.queueing import quotas, tenant_limits
from pipeweave.orchestrator.queueing.tenant_limits import TenantLimits
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.rates import Rate

RATE = Rate(8, 3_600.0)
_names = itertools.count(1)


class Clock:
    """A clock of both the database and the processes, which only the test moves on."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2031, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def database(deployment: Deployment, clock: Clock) -> Iterator[Database]:
    opened = Database(deployment.database.url, now=clock.now)
    yield opened
    opened.dispose()


@pytest.fixture
def tenant(database: Database) -> str:
    name = f"rated-{next(_names)}"
    limits = TenantLimits(request_rate=str(RATE))
    database.run(lambda tx: tenant_limits.set_limits(tx, name, limits))
    return name


def is_taken(rates: RequestRates, tenant: str) -> bool:
    try:
        rates.take(tenant, RATE)
    except QuotaExceeded:
        return False
    return True


def test_of_eight_threads_exactly_so_many_requests_are_served_as_the_rate_allows(
    database: Database, tenant: str, clock: Clock
) -> None:
    rates = RequestRates(database, clock)
    calls = [each for _ in range(3) for each in call_concurrently(*[lambda: is_taken(rates, tenant)] * 8)]
    assert [each.result for each in calls].count(True) == 8


def test_what_one_process_has_served_another_one_knows_after_a_second(
    database: Database, tenant: str, clock: Clock
) -> None:
    first, second = (RequestRates(database, clock) for _ in range(2))
    assert [is_taken(first, tenant) for _ in range(6)] == [True] * 6
    clock.seconds += SYNC_EVERY_S
    assert is_taken(first, tenant)
    assert [is_taken(second, tenant) for _ in range(4)] == [True, True, False, False]


def test_a_request_comes_in_time_again_when_its_spacing_is_over(
    database: Database, tenant: str, clock: Clock
) -> None:
    rates = RequestRates(database, clock)
    assert [is_taken(rates, tenant) for _ in range(8)] == [True] * 8
    with pytest.raises(QuotaExceeded) as refused:
        rates.take(tenant, RATE)
    assert refused.value.retry_after_s == 450
    clock.seconds += 449
    assert not is_taken(rates, tenant)
    clock.seconds += 1
    assert [is_taken(rates, tenant), is_taken(rates, tenant)] == [True, False]


def test_most_requests_cost_no_statement(
    database: Database, tenant: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    share = quotas.share_requests

    def counted(tx: Transaction, *about: Any) -> datetime:
        asked.append("")
        return share(tx, *about)

    monkeypatch.setattr(quotas, "share_requests", counted)
    rates = RequestRates(database, clock)
    for _ in range(8):
        rates.take(tenant, RATE)
    assert len(asked) == 1


def test_requests_are_served_by_the_count_of_the_process_while_postgresql_is_away(
    tenant: str, clock: Clock
) -> None:
    away = Database("postgresql://nobody@127.0.0.1:9/none", now=clock.now)
    rates = RequestRates(away, clock)
    assert [is_taken(rates, tenant) for _ in range(9)] == [True] * 8 + [False]
