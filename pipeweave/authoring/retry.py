"""Decide whether a failed attempt is followed by another attempt, and after how long. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from pipeweave.errors import AttemptFailed, InvalidTask, PipeWeaveError, TaskError
from pipeweave.option_checks import (
    BACKOFFS,
    MAX_CODE,
    MAX_MULTIPLIER,
    MAX_RETRIES,
    Backoff,
    choice_mistakes,
    code_mistakes,
    number_mistakes,
)
from pipeweave.safe_text import call_safely, safe_text, storable

_YEAR_MS = 366 * 86_400_000


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The delays between a task's attempts, and the errors that are retried.

    Args:
        backoff: how the delay grows: `fixed`, `linear` or `exponential`.
        base_ms: the delay after the first failed attempt, ms.
        max_delay_ms: the longest delay, ms.
        multiplier: the factor by which an exponential delay grows, from 1.
        jitter: the part of a delay that is random, 0 to 1.
        retry_on: the error codes that are retried; None for every retryable error.
        cap_ms: the longest delay that the deployment allows, ms; None for no such limit.
    """

    backoff: Backoff
    base_ms: int
    max_delay_ms: int
    multiplier: float = 2
    jitter: float = 0
    retry_on: frozenset[str] | None = None
    cap_ms: int | None = None

    def delay_ms(self, failed_attempt: int, chance: float) -> int:
        """The delay in ms between the end of a failed attempt and the start of the next attempt.

        Args:
            failed_attempt: number of the attempt that failed, from 1.
            chance: a random number from 0 to below 1. It decides how much jitter shortens the delay; jitter
                never lengthens a delay, so it cannot exceed a limit.
        """
        longest = self.max_delay_ms if self.cap_ms is None else min(self.max_delay_ms, self.cap_ms)
        return int(min(self._grown(failed_attempt), longest) * (1 - self.jitter * chance))

    def may_retry(self, code: str, *, is_retryable: bool) -> bool:
        """True if an error with this code is retried, provided that an attempt is left."""
        return is_retryable and (self.retry_on is None or code in self.retry_on)

    def _grown(self, failed_attempt: int) -> float:
        match self.backoff:
            case "fixed":
                return self.base_ms
            case "linear":
                return self.base_ms * failed_attempt
            case "exponential":
                # A float: an int to the power of a million would have a million digits.
                try:
                    return round(self.base_ms * float(self.multiplier) ** (failed_attempt - 1))
                except OverflowError:
                    return float("inf") if self.base_ms else 0
        assert_never(self.backoff)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often and when a task is retried: `@task(retry=Retry(attempts=5, jitter=0.2))`.

    Args:
        attempts: the number of attempts, including the first.
        delay_ms: the delay before the second attempt, ms.
        backoff: how the delay grows from there: `fixed`, `linear` or `exponential`.
        multiplier: the factor by which an exponential delay grows, from 1.
        max_delay_ms: the longest delay, ms.
        jitter: the part of each delay that is random, 0 to 1.
        retry_on: the error codes that are retried; None for every retryable error.

    Raises:
        InvalidTask: an argument is invalid; each FieldError names one argument.
    """

    attempts: int = 3
    delay_ms: int = 1_000
    backoff: Backoff = "exponential"
    multiplier: float = 2
    max_delay_ms: int = 30_000
    jitter: float = 0
    retry_on: Sequence[str] | None = None

    def __post_init__(self) -> None:
        errors = [
            *number_mistakes(self.attempts, "attempts", int, 1, MAX_RETRIES + 1),
            *number_mistakes(self.delay_ms, "delay_ms", int, 1, _YEAR_MS),
            *choice_mistakes(self.backoff, "backoff", BACKOFFS),
            *number_mistakes(self.multiplier, "multiplier", float, 1, MAX_MULTIPLIER),
            *number_mistakes(self.max_delay_ms, "max_delay_ms", int, 1, _YEAR_MS),
            *number_mistakes(self.jitter, "jitter", float, 0, 1),
            *code_mistakes(self.retry_on, "retry_on"),
        ]
        if errors:
            raise InvalidTask(f"Retry: {errors[0].field} {errors[0].message}", errors=errors)

    def to_options(self) -> dict[str, Any]:
        """Convert to the equivalent plain options of a task."""
        return {
            "retries": self.attempts - 1,
            "retry_delay_ms": self.delay_ms,
            "retry_backoff": self.backoff,
            "retry_multiplier": self.multiplier,
            "max_retry_delay_ms": self.max_delay_ms,
            "retry_jitter": self.jitter,
            "retry_on": None if self.retry_on is None else tuple(self.retry_on),
        }


def classify_error(error: BaseException) -> tuple[str, bool]:
    """Return the code of an error that a task raised, and whether another attempt may help."""
    match error:
        case TaskError():
            code = safe_text(str, error.task_code)[:MAX_CODE] or error.code
            return code, call_safely(lambda: bool(error.retryable), True)
        case PipeWeaveError():
            # A wrong definition of a task is as wrong at the next attempt.
            return error.code, not isinstance(error, (AttemptFailed, InvalidTask))
        case _:
            return storable(type(error).__name__)[:MAX_CODE], True
