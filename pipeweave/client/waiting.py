"""Decide how long to pause between two looks at a run. Nothing here waits or sends: both clients use it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from pipeweave.client.models import Run
from pipeweave.errors import Unavailable, WaitTimeout

log = logging.getLogger(__name__)

# Looks are frequent at first, for runs that take milliseconds, and then less and less frequent.
FIRST_PAUSE_S = 0.02
USUAL_PAUSE_S = 0.5
PAUSE_FACTOR = 1.5
# Polling must not slow the run down: the pause is at least 20 times as long as the last request took, at most
# 2 s.
PAUSE_PER_ANSWER = 20
LONGEST_PAUSE_S = 2.0
# Where a stream tells of changes, a look is due after this time (s) all the same.
FOLLOWED_PAUSE_S = 2.0
# A wait continues after an outage of the API of up to this length.
OUTAGE_S = 15.0


class RunWait:
    """One wait for the end of a run.

    Args:
        run_id: the run.
        timeout: seconds to wait at most; None waits without limit.
        on_change: called with the run whenever the API's answer differs from the answer before.
        on_pause: called with a sentence when the run was paused, once for each pause; by default it is logged
            as a warning.
    """

    def __init__(
        self,
        run_id: str,
        timeout: float | None,
        on_change: Callable[[Run], None] | None,
        on_pause: Callable[[str], None] = log.warning,
    ) -> None:
        self._run_id, self._timeout, self._on_change = run_id, timeout, on_change
        self._on_pause = on_pause
        self._paused_at: object = None
        self._began = self._asked_at = time.monotonic()
        self._pause = FIRST_PAUSE_S
        self._last: object = None
        self._away_since: float | None = None

    def asks(self) -> None:
        """Call this before each look."""
        self._asked_at = time.monotonic()

    def pause_after(self, run: Run) -> tuple[float, float]:
        """Seconds to pause after this answer, which is not final: without a stream that tells of changes, and
        with one as long as it tells of none.

        Raises:
            WaitTimeout: the timeout is over.
        """
        return self._pause_while(run.status)

    def pause_before_start(self) -> float:
        """Seconds to pause when the run is enqueued, and has not started.

        Raises:
            WaitTimeout: the timeout is over.
        """
        self._away_since = None
        return self._pause_while("enqueued")[0]

    def _pause_while(self, status: str) -> tuple[float, float]:
        now = time.monotonic()
        left = None if self._timeout is None else self._timeout - (now - self._began)
        if left is not None and left <= 0:
            raise WaitTimeout(
                f"run {self._run_id} is still {status} after {self._timeout:g} s",
                hint=f"`pipeweave status {self._run_id} --watch` follows it",
            )
        needed = min(PAUSE_PER_ANSWER * (now - self._asked_at), LONGEST_PAUSE_S)
        pause = max(self._pause, needed)
        self._pause = min(pause * PAUSE_FACTOR, USUAL_PAUSE_S)
        most = max(pause, FOLLOWED_PAUSE_S)
        return (pause, most) if left is None else (min(pause, left), min(most, left))

    def saw(self, run: Run) -> None:
        """Call this with each answer."""
        self._away_since = None
        self._tell_pause(run)
        if self._on_change and run.document != self._last:
            self._on_change(run)
            self._last = run.document

    def _tell_pause(self, run: Run) -> None:
        paused_at = run.document.get("pausedAt")
        if paused_at not in (None, self._paused_at):
            reason = run.document.get("pauseReason")
            because = f": {reason}" if reason else ""
            since = f"run {self._run_id} is paused since {paused_at}{because}"
            self._on_pause(f"{since}; it goes on when it is resumed")
        self._paused_at = paused_at

    def pause_after_outage(self, error: Unavailable) -> float:
        """Seconds to pause when the API cannot be reached.

        Raises:
            Unavailable: this error, when the API has been away for too long.
        """
        now = time.monotonic()
        self._away_since = self._away_since or self._asked_at
        if now - self._away_since > OUTAGE_S:
            raise error
        return USUAL_PAUSE_S
