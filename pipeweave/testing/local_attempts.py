"""Call a function, and say whether another attempt follows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, cast

from pipeweave.attempt import Files, call_to_end, mask_assets, masked_result
from pipeweave.authoring import CallResult, RetryPolicy, TaskSpec, classify_error, outcome_of
from pipeweave.json_conversion import details_of
from pipeweave.masking import Masks
from pipeweave.option_checks import Backoff
from pipeweave.safe_text import safe_text
from pipeweave.spec import StepSpec
from pipeweave.testing.local_files import Kept, added_assets
from pipeweave.testing.local_result import StepResult

Function = Callable[..., Any]
Called = tuple[CallResult, dict[str, Kept]]


def called(
    fn: Function, arguments: Mapping[str, Any], files: Files, masks: Masks, *, takes_pending: bool = False
) -> Called:
    """Call a function: its outcome, and the assets that it has added.

    Args:
        masks: hide the values of secrets that the attempt has resolved.
        takes_pending: whether a dict `{"status": "pending", …}` suspends the call.
    """
    try:
        outcome = outcome_of(call_to_end(fn, arguments), takes_pending=takes_pending)
        mask_assets(files, masks)
        return masked_result(outcome, masks), added_assets(files)
    finally:
        files.close()


def retries_of(step: StepSpec, options: TaskSpec | None) -> tuple[int, RetryPolicy]:
    """How many attempts a step has, and its policy: its own, or its task's; without either, one attempt."""
    retry = step.retry
    if retry is not None:
        codes = None if retry.retry_on is None else frozenset(retry.retry_on)
        return retry.attempts, RetryPolicy(
            cast(Backoff, retry.backoff),
            retry.delay_ms,
            retry.max_delay_ms,
            retry.multiplier,
            retry.jitter,
            codes,
        )
    if options is not None:
        return options.retries + 1, options.retry_policy
    return 1, RetryPolicy("fixed", 0, 0)


def may_retry(policy: RetryPolicy, error: BaseException) -> bool:
    """Whether an error is one that is retried."""
    code, is_retryable = classify_error(error)
    return policy.may_retry(code, is_retryable=is_retryable)


def previous_attempt(result: StepResult) -> Mapping[str, Any]:
    """Describe a failed attempt for the context of later attempts."""
    assert result.error is not None
    return {
        "attempt": result.attempts,
        "status": result.status,
        "error": safe_text(str, result.error) or type(result.error).__name__,
        "errorCode": classify_error(result.error)[0],
        "details": details_of(getattr(result.error, "details", None)),
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
