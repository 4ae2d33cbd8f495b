"""When a failed attempt is followed by another, and how long after it. Values and arithmetic only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never, get_args

Backoff = Literal["fixed", "linear", "exponential"]
BACKOFFS: tuple[Backoff, ...] = get_args(Backoff)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How the attempts of a task follow each other.

    Args:
        backoff: how the delay grows: `fixed`, `linear` or `exponential`.
        base_ms: the delay after the first failed attempt, ms.
        max_delay_ms: no delay is longer, ms.
        multiplier: what an exponential delay grows by, from 1.
        jitter: the part of a delay that is left to chance, 0 to 1.
        retry_on: the error codes that earn another attempt; None for every retryable one.
        cap_ms: what the operator allows at most, ms; None for no such limit.
    """

    backoff: Backoff
    base_ms: int
    max_delay_ms: int
    multiplier: float = 2
    jitter: float = 0
    retry_on: frozenset[str] | None = None
    cap_ms: int | None = None

    def delay_ms(self, failed_attempt: int, chance: float) -> int:
        """Milliseconds between the end of an attempt (from 1) and the one that follows it.

        `chance`, from 0 to below 1, decides how much of the jitter is taken off: the longest delay is the
        one that was asked for, so that jitter never breaks a limit.
        """
        longest = self.max_delay_ms if self.cap_ms is None else min(self.max_delay_ms, self.cap_ms)
        return int(min(self._grown(failed_attempt), longest) * (1 - self.jitter * chance))

    def may_retry(self, code: str, *, is_retryable: bool) -> bool:
        """Whether an error with this code earns another attempt, if one is left."""
        return is_retryable and (self.retry_on is None or code in self.retry_on)

    def _grown(self, failed_attempt: int) -> float:
        match self.backoff:
            case "fixed":
                return self.base_ms
            case "linear":
                return self.base_ms * failed_attempt
            case "exponential":
                # As a float: a whole number to the power of a million is a number of a million digits.
                try:
                    return round(self.base_ms * float(self.multiplier) ** (failed_attempt - 1))
                except OverflowError:
                    return float("inf") if self.base_ms else 0
        assert_never(self.backoff)
