"""Defines how long the result of a call may take that suspends itself, and how often it is asked for.

A task says by its result that it goes on elsewhere (see `pipeweave.Suspend`); its step may say the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pipeweave.spec.wait_steps import DEFAULT_WAIT_MS

# How often a poll asks, and how long in all, where neither the call nor its step says so.
DEFAULT_INTERVAL_MS: Final = 5_000
DEFAULT_TRIES: Final = 60
DEFAULT_POLL_MS: Final = 300_000
SHORTEST_INTERVAL_MS: Final = 1_000
MOST_TRIES: Final = 100_000


@dataclass(frozen=True, slots=True)
class AsyncDefaults:
    """What the key `async` of a step says of calls that suspend themselves. None: the defaults.

    Args:
        timeout_ms: how long a callback may take (ms).
        interval_ms: between two polls (ms).
        tries: how often is polled at most.
        poll_timeout_ms: how long is polled in all (ms).
    """

    timeout_ms: int | None = None
    interval_ms: int | None = None
    tries: int | None = None
    poll_timeout_ms: int | None = None

    @property
    def callback_ms(self) -> int:
        """How long a callback may take (ms)."""
        return DEFAULT_WAIT_MS if self.timeout_ms is None else self.timeout_ms

    def to_json(self) -> dict[str, Any]:
        poll = {
            "intervalMs": self.interval_ms,
            "maxAttempts": self.tries,
            "timeoutMs": self.poll_timeout_ms,
        }
        poll = {key: value for key, value in poll.items() if value is not None}
        shown: dict[str, Any] = {} if self.timeout_ms is None else {"timeoutMs": self.timeout_ms}
        return {**shown, "poll": poll} if poll else shown


NO_ASYNC_DEFAULTS: Final = AsyncDefaults()
