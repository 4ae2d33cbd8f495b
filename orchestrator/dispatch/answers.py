"""Judges the answer of a service to a dispatch (pure): taken, tried elsewhere, tried later, or refused."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum

from pipeweave.authoring import classify_error
from pipeweave.errors import AttemptTimedOut, DispatchFailed, DispatchRefused, PipeWeaveError
from pipeweave.orchestrator.domain.failure import Failure, Outcome
from pipeweave.safe_text import storable
from pipeweave.sending import NoReply, Reply

# An instance that has no room is not asked for so long (s), at least.
BUSY_S = 0.5
# A service says no longer delay than this (s).
MAX_RETRY_AFTER_S = 24 * 3600.0
MAX_QUOTED = 500


class AnswerVerdict(Enum):
    """What follows from the answer of an instance."""

    TAKEN = "taken"
    # It certainly did not take the dispatch: another instance may.
    ELSEWHERE = "elsewhere"
    # It may have taken the dispatch, or failed on it: only another attempt may try again.
    LATER = "later"
    # Another attempt would be refused, too.
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Judged:
    """What an answer means.

    Args:
        failure: of the attempt, unless the dispatch was taken.
        sets_aside: whether the instance takes no dispatches until it answers a probe.
        busy_s: for how long (s) the instance has no room; None unless that is why.
        answered: whether the instance said anything.
    """

    verdict: AnswerVerdict
    failure: Failure | None = None
    sets_aside: bool = False
    busy_s: float | None = None
    answered: bool = True


def judge(reply: Reply | NoReply, url: str, now: datetime) -> Judged:
    """What the answer of an instance means.

    Args:
        url: of the instance, for people.
        now: PostgreSQL's clock.
    """
    if isinstance(reply, NoReply):
        return _without_answer(reply, url)
    if 200 <= reply.status < 300:
        return Judged(AnswerVerdict.TAKEN)
    said = f"{url} answered {reply.status}{_quoted(reply.text)}"
    delay = retry_after(reply.retry_after, now)
    if reply.status == 429 or (reply.status == 503 and delay is not None):
        busy_s = BUSY_S if delay is None else max(delay, BUSY_S)
        return Judged(AnswerVerdict.ELSEWHERE, _failure(DispatchFailed(said)), busy_s=busy_s)
    if reply.status == 503:
        return Judged(AnswerVerdict.ELSEWHERE, _failure(DispatchFailed(said)), sets_aside=True)
    if reply.status >= 500:
        return Judged(
            AnswerVerdict.LATER, _failure(DispatchFailed(said)), sets_aside=reply.status in (502, 504)
        )
    if 300 <= reply.status < 400:
        said = f"{url} answered {reply.status}: dispatches follow no redirects"
    return Judged(AnswerVerdict.REFUSED, _failure(DispatchRefused(said)))


def unreachable(reason: str) -> Failure:
    """The failure when no instance of the service can be asked."""
    return _failure(DispatchFailed(reason))


def _without_answer(reply: NoReply, url: str) -> Judged:
    said = f"{url}: {reply.reason}"
    if reply.is_late and not reply.is_certain:
        failure = _failure(AttemptTimedOut(said), outcome=Outcome.TIMEOUT)
        return Judged(AnswerVerdict.LATER, failure, sets_aside=True, answered=False)
    verdict = AnswerVerdict.ELSEWHERE if reply.is_certain else AnswerVerdict.LATER
    return Judged(verdict, _failure(DispatchFailed(said)), sets_aside=True, answered=False)


def _failure(error: PipeWeaveError, *, outcome: Outcome = Outcome.FAILED) -> Failure:
    code, is_retryable = classify_error(error)
    return Failure(code, str(error.detail), type(error).__name__, is_retryable, outcome=outcome)


def _quoted(text: str) -> str:
    shown = " ".join(storable(text).split())[:MAX_QUOTED]
    return f": {shown}" if shown else ""


def retry_after(header: str | None, now: datetime) -> float | None:
    """The delay (s) that a Retry-After header asks for; None when there is none or it makes no sense."""
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return min(float(text), MAX_RETRY_AFTER_S)
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return min(max((at - now).total_seconds(), 0.0), MAX_RETRY_AFTER_S)
