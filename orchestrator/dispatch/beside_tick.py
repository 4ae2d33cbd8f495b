"""Makes calls to other systems by threads beside the tick, a few at a time; no tenant takes all places.

The tick waits for them only in a serverless deployment, which has no time beside its ticks.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeweave.sending import Sender

log = logging.getLogger(__name__)

# Calls of a kind that a process makes at the same time, and of them for one tenant, whose receivers may all
# hang.
AT_ONCE = 8
OF_A_TENANT = 4
# Rows that are looked at together.
WINDOW = 800

# Claims at most so many calls, of each tenant as many as it has places left; see `Shares`.
Claim = Callable[[int, "Shares"], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Shares:
    """How many calls of each tenant may begin.

    Args:
        busy: by tenant: how many are under way.
        each: how many there may be of a tenant at the same time.
    """

    busy: Mapping[str, int] = field(default_factory=dict)
    each: int = OF_A_TENANT

    def parameters(self) -> dict[str, Any]:
        """The parameters of HAS_PLACES and IS_IN_SHARE, and the `window` of rows that are looked at."""
        left = {tenant: max(0, self.each - count) for tenant, count in self.busy.items()}
        full = [tenant for tenant, places in left.items() if not places]
        own = {"busy": list(left), "places": list(left.values()), "full": full}
        return {**own, "window": WINDOW, "share": self.each}


ALL_FREE = Shares()

# SQL: whether a row `d` is of a tenant that has places left, and a row `w` with its `turn` in its tenant is
# within them.
HAS_PLACES = "d.tenant_id <> ALL(CAST(:full AS text[]))"
IS_IN_SHARE = """w.turn <= coalesce((SELECT b.places
        FROM unnest(CAST(:busy AS text[]), CAST(:places AS integer[])) AS b (tenant_id, places) WHERE
        b.tenant_id = w.tenant_id), :share)"""


class CallsBesideTick:
    """The calls of one kind that this process makes just now.

    Args:
        sender: sends them; its exchanges are cut when their time is up.
        at_once: how many there may be at the same time.
        of_a_tenant: how many of them for one tenant.
    """

    def __init__(self, sender: Sender, at_once: int = AT_ONCE, of_a_tenant: int = OF_A_TENANT) -> None:
        self.sender = sender
        self._at_once = at_once
        self._of_a_tenant = of_a_tenant
        self._places = threading.Semaphore(at_once)
        self._lock = threading.Lock()
        self._by_tenant: Counter[str] = Counter()

    def close(self) -> None:
        """Close the connections that are kept."""
        self.sender.close()

    def begin(self, claim: Claim, call: Callable[[Any], None], *, waits: bool) -> int:
        """Claim calls and begin them, each in a thread.

        Args:
            claim: gives rows that have a `tenant_id`.
            call: makes the call of a row; what it raises is logged.
            waits: whether to wait until they have ended.

        Returns:
            How many calls began.
        """
        free = self._take_free()
        if not free:
            return 0
        try:
            with self._lock:
                busy = dict(self._by_tenant)
            claimed = claim(free, Shares(busy, self._of_a_tenant))
        except BaseException:
            self._places.release(free)
            raise
        if len(claimed) < free:
            self._places.release(free - len(claimed))
        with self._lock:
            self._by_tenant.update(each.tenant_id for each in claimed)
        begun = [threading.Thread(target=self._made, args=(call, each), daemon=True) for each in claimed]
        for each in begun:
            each.start()
        if waits:
            for each in begun:
                each.join(2 * self.sender.limit_s)
        return len(begun)

    def _take_free(self) -> int:
        free = 0
        while free < self._at_once and self._places.acquire(blocking=False):
            free += 1
        return free

    def _made(self, call: Callable[[Any], None], claimed: Any) -> None:
        try:
            call(claimed)
        except Exception as error:
            # The next try comes when it is due.
            log.warning("call.failed", extra={"tenant": claimed.tenant_id}, exc_info=error)
        finally:
            with self._lock:
                # A counter that is subtracted from forgets who has nothing left.
                self._by_tenant -= Counter([claimed.tenant_id])
            self._places.release()
