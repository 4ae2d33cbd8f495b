"""What a check says: how it went, what happened, and how to mend it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How a check went. WARN: it works, but work is lost or done twice where more goes wrong."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


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
