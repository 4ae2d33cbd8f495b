"""When a failed attempt is followed by another, and how long after it. Values and arithmetic only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, assert_never, get_args

from pipeweave.authoring.option_checks import MAX_CODE, choice_mistakes, code_mistakes, number_mistakes
from pipeweave.errors import AttemptFailed, InvalidTask, PipeWeaveError, TaskError
from pipeweave.safe_text import call_safely, safe_text, storable

MAX_RETRIES = 10_000
"""Executions after the first that a task may ask for."""

MAX_MULTIPLIER = 1_000
"""What a delay may grow by from attempt to attempt."""

_YEAR_MS = 366 * 86_400_000

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often and when a task is tried again: `@task(retry=Retry(attempts=5, jitter=0.2))`.

    Args:
        attempts: executions in all, the first included.
        delay_ms: before the second attempt, ms.
        backoff: how the delay grows from there: `fixed`, `linear` or `exponential`.
        multiplier: what an exponential delay grows by, from 1.
        max_delay_ms: the longest delay, ms.
        jitter: the part of each delay that is left to chance, 0 to 1.
        retry_on: the error codes that earn another attempt; None for every retryable error.

    Raises:
        InvalidTask: a value is wrong; each FieldError names one.
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
        """The options of a task that say the same."""
        return {
            "retries": self.attempts - 1,
            "retry_delay_ms": self.delay_ms,
            "retry_backoff": self.backoff,
            "retry_multiplier": self.multiplier,
            "max_retry_delay_ms": self.max_delay_ms,
            "retry_jitter": self.jitter,
            "retry_on": None if self.retry_on is None else tuple(self.retry_on),
        }


def judge(error: BaseException) -> tuple[str, bool]:
    """The code of what a task raised, and whether another attempt may help."""
    match error:
        case TaskError():
            code = safe_text(str, error.task_code)[:MAX_CODE] or error.code
            return code, call_safely(lambda: bool(error.retryable), True)
        case PipeWeaveError():
            return error.code, not isinstance(error, AttemptFailed)
        case _:
            return storable(type(error).__name__)[:MAX_CODE], True
