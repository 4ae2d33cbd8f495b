"""What a check says: how it went, what happened, and how to mend it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeweave.conformance.stage import Stage


class Level(StrEnum):
    """How a check went. WARN: it works, but work is lost or done twice where more goes wrong."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


class Need(IntEnum):
    """What a check can only be made with: nothing; a worker that answers; a task that completes, too."""

    NOTHING = 0
    WORKER = 1
    SUCCESS = 2


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one check found.

    Args:
        happened: what the worker did, in one sentence.
        mend: how to mend it; None where nothing is to be mended.
    """

    level: Level
    happened: str
    mend: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """One question to a worker.

    Args:
        name: a stable word, for `--only` and `--skip`.
        expected: what a worker should do, in one sentence.
        look: asks the worker.
        need: without it the check is skipped.
    """

    name: str
    expected: str
    look: Callable[[Stage], Verdict]
    need: Need = Need.SUCCESS


@dataclass(frozen=True, slots=True)
class Finding:
    """A check and what it found."""

    check: Check
    verdict: Verdict


def passed(happened: str) -> Verdict:
    """The worker did what was expected."""
    return Verdict(Level.PASS, happened)


def warned(happened: str, mend: str) -> Verdict:
    """It works, and is worth mending."""
    return Verdict(Level.WARN, happened, mend)


def failed(happened: str, mend: str) -> Verdict:
    """The orchestrator could not work with this."""
    return Verdict(Level.FAIL, happened, mend)


def skipped(happened: str, mend: str | None = None) -> Verdict:
    """The question could not be asked."""
    return Verdict(Level.SKIP, happened, mend)
