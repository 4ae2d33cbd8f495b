"""Says how a loop goes on after a round. Pure.

The engine and `pipeweave.testing` decide by it, each with the values that it has.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from pipeweave.spec.child_steps import LoopStep

LOOP_LIMIT: Final = "LOOP_LIMIT"
# The most that the outputs of the rounds that a loop collects may have together, as JSON (bytes).
MAX_COLLECTED: Final = 1_000_000


class AfterRound(Enum):
    """How a loop goes on: with its output, with another round, or with its failure by LOOP_LIMIT."""

    OVER = "over"
    NEXT = "next"
    LIMIT = "limit"


def after_round(loop: LoopStep, index: int, is_over: Callable[[], bool]) -> AfterRound:
    """How a loop goes on after a round that ended well.

    Args:
        index: the number of the round, from 0.
        is_over: evaluates `until`; called where the loop has one.
    """
    is_last = index + 1 >= loop.max_rounds
    if loop.until is None:
        return AfterRound.OVER if is_last else AfterRound.NEXT
    if is_over():
        return AfterRound.OVER
    return AfterRound.LIMIT if is_last else AfterRound.NEXT


def limit_message(loop: LoopStep) -> str:
    """Why a loop failed by LOOP_LIMIT, for people."""
    return f"the condition of the loop was false after {loop.max_rounds:,} rounds"


def collected_message() -> str:
    """Why a loop failed that collects more than MAX_COLLECTED, for people."""
    return f"the outputs of the rounds have more than {MAX_COLLECTED:,} bytes together"


def scope_of_round(index: int, last: Any) -> dict[str, Any]:
    """The values that a round may name by roots of its own.

    Args:
        last: what the round before gave, or this one where `until` is evaluated; None before the first one.
    """
    return {"last": last, "loop": {"index": index, "last": last}}
