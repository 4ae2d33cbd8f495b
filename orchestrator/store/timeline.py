"""Notices that another PostgreSQL has taken over: each promotion of a standby begins a new timeline.

The number of the timeline comes with what a process asks anyway: on each new connection, because the old ones
have ended with the old server, and whenever it reads PostgreSQL's clock, because a pooler keeps connections
through a promotion. So nobody waits for it, and no thread looks for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from pipeweave.settings.database_hosts import Host, hosts_of

log = logging.getLogger(__name__)

# SQL: the timeline that this server writes, as eight hexadecimal digits; NULL on a standby.
TIMELINE = "CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) END"


@dataclass(frozen=True, slots=True)
class Promotion:
    """A promotion that this process noticed.

    Args:
        old: the timeline before it.
        new: the timeline since.
        noticed_at: when the process noticed it (s, by the clock of its Timeline).
    """

    old: int
    new: int
    noticed_at: float


class Timeline:
    """What a process knows of the timeline of its database. Threads share it, forked processes inherit it.

    Args:
        clock: seconds, never set.

    Attributes:
        promotions: how many promotions this process, or the one that it was forked from, has noticed.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._number: int | None = None
        self._noticed: dict[int, Promotion] = {}
        self.promotions = 0

    @property
    def latest(self) -> Promotion | None:
        """The last promotion that was noticed; None before the first."""
        return max(self._noticed.values(), key=lambda each: each.new, default=None)

    def was_promoted_within(self, seconds: float) -> bool:
        """Whether a promotion was noticed so short a time (s) ago."""
        latest = self.latest
        return latest is not None and self._clock() - latest.noticed_at < seconds

    def record(self, shown: str | None) -> None:
        """Take in what a server said of its timeline; a promotion is logged once in this process.

        Args:
            shown: what TIMELINE gave.
        """
        if shown is None:
            return
        number = int(shown, 16)
        before, self._number = self._number, number
        if before is None or number <= before:
            return
        promotion = Promotion(before, number, self._clock())
        # Of two threads that notice it at once, one logs it.
        if self._noticed.setdefault(number, promotion) is promotion:
            self.promotions = len(self._noticed)
            log.warning(
                "database.promoted",
                extra={
                    "old_timeline": before,
                    "new_timeline": number,
                    "hint": "what the old server had not sent to the standby is gone (docs/reliability.md)",
                },
            )


# By the servers of a URL: all databases of a process that name the same servers have the same timeline.
_OF: dict[tuple[Host, ...], Timeline] = {}


def timeline_of(url: str) -> Timeline:
    """What this process knows of the timeline of these servers.

    Args:
        url: of a database.
    """
    return _OF.setdefault(hosts_of(url), Timeline())
