"""One question to a worker, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from pipeweave.conformance.stage import Stage
from pipeweave.conformance.verdicts import ContractVerdict


class Need(IntEnum):
    """What a check can only be made with: nothing; a worker that answers; a task that completes, too."""

    NOTHING = 0
    WORKER = 1
    SUCCESS = 2


@dataclass(frozen=True, slots=True)
class ContractCheck:
    """One question to a worker.

    Args:
        name: a stable word, for `--only` and `--skip`.
        expected: what a worker should do, in one sentence.
        look: asks the worker.
        need: without it the check is skipped.
    """

    name: str
    expected: str
    look: Callable[[Stage], ContractVerdict]
    need: Need = Need.SUCCESS


@dataclass(frozen=True, slots=True)
class ContractFinding:
    """A check and what it found."""

    check: ContractCheck
    verdict: ContractVerdict
