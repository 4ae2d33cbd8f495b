"""Refuses requests of tenants that send more than their rate allows, over all processes of the API.

A process counts by itself, and tells the others at most once in SYNC_EVERY_S: it moves the tenant's row in
`tenant_use` on by the requests that it has served, and goes on from there. So a rate costs no statement for
most requests, and several processes together let through at most what they serve within that time too much.
A tenant without a rate costs nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from time import monotonic

from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.domain import gcra
from pipeweave.orchestrator.queueing import quotas
from pipeweave.orchestrator.store import Database
from pipeweave.rates import Rate

log = logging.getLogger(__name__)

SYNC_EVERY_S = 1.0
# Tenants that one process counts at most; then it asks their rows anew.
MOST_TENANTS = 10_000


@dataclass(slots=True)
class _Served:
    """What a process knows of the requests of a tenant.

    Args:
        on_time: when the next one would be on time.
        untold: requests that the row does not have yet.
        since: when the first of those was served.
        told_at: when the row was asked (s, monotonic clock).
    """

    on_time: datetime
    untold: int = 0
    since: datetime | None = None
    told_at: float | None = None


class RequestRates:
    """Counts the requests of tenants with a rate.

    Args:
        database: with the rows that all processes share.
        clock: seconds that only go forward.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = monotonic) -> None:
        self._database = database
        self._clock = clock
        self._served: dict[str, _Served] = {}
        self._lock = threading.Lock()

    def take(self, tenant: str, rate: Rate) -> None:
        """Count a request of this tenant.

        Raises:
            QuotaExceeded: it comes too early; it does not count.
        """
        self._share(tenant, rate)
        now = self._database.now()
        with self._lock:
            served = self._of(tenant, now)
            on_time = gcra.on_time(rate, served.on_time, now, 0)
            if gcra.room(rate, on_time, now) >= 1:
                served.on_time = gcra.after(rate, on_time, 1)
                served.since = served.since if served.untold else now
                served.untold += 1
                return
        frees_at = gcra.when(rate, on_time, 1)
        raise quotas.exceeded(tenant, "requestRate", str(rate), None, now, frees_at=frees_at)

    def _of(self, tenant: str, now: datetime) -> _Served:
        if tenant not in self._served and len(self._served) >= MOST_TENANTS:
            self._served.clear()
        return self._served.setdefault(tenant, _Served(now))

    def _share(self, tenant: str, rate: Rate) -> None:
        """Tell the row what was served, and learn what others have; one thread at a time does so."""
        now = self._database.now()
        with self._lock:
            served, asked_at = self._of(tenant, now), self._clock()
            if served.told_at is not None and asked_at - served.told_at < SYNC_EVERY_S:
                return
            served.told_at, untold, served.untold = asked_at, served.untold, 0
            since = served.since or now
        try:
            shared = self._database.run(lambda tx: quotas.share_requests(tx, tenant, rate, untold, since))
        except PipeWeaveError as error:
            # Each process goes on by itself; what was not told is told with the next.
            log.info("requests.not_shared", extra={"tenant": tenant, "reason": error.detail})
            with self._lock:
                served.untold, served.since = served.untold + untold, since
            return
        with self._lock:
            served.on_time = max(served.on_time, gcra.after(rate, shared, served.untold))
