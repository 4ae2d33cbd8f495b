"""What a check says: how it went, what happened, and how to mend it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ContractLevel(StrEnum):
    """How a check went. WARN: it works, but work is lost or done twice where more goes wrong."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class ContractVerdict:
    """What one check found.

    Args:
        happened: what the worker did, in one sentence.
        mend: how to mend it; None where nothing is to be mended.
    """

    level: ContractLevel
    happened: str
    mend: str | None = None


def passed(happened: str) -> ContractVerdict:
    """The worker did what was expected."""
    return ContractVerdict(ContractLevel.PASS, happened)


def warned(happened: str, mend: str) -> ContractVerdict:
    """It works, and is worth mending."""
    return ContractVerdict(ContractLevel.WARN, happened, mend)


def failed(happened: str, mend: str) -> ContractVerdict:
    """The orchestrator could not work with this."""
    return ContractVerdict(ContractLevel.FAIL, happened, mend)


def skipped(happened: str, mend: str | None = None) -> ContractVerdict:
    """The question could not be asked."""
    return ContractVerdict(ContractLevel.SKIP, happened, mend)
