"""Defines when a step runs after several predecessors: the join rule of a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class JoinRule:
    """When a step with predecessors runs.

    Args:
        at_least: it runs once so many edges are taken, and waits for no other; None: it waits until all
            predecessors are final.
        takes_failures: it runs whatever its predecessors came to, failures included.
        needs_one: it is skipped if none of its predecessors was reached: none failed and no edge is taken.
    """

    at_least: int | None = None
    takes_failures: bool = False
    needs_one: bool = False

    @property
    def is_early(self) -> bool:
        """Whether it may run before all predecessors are final."""
        return self.at_least is not None

    def to_json(self) -> Any:
        if self.at_least is None:
            return "all-done" if self.takes_failures else "all"
        return "any" if self.at_least == 1 else {"atLeast": self.at_least}


ALL: Final = JoinRule()
ALL_DONE: Final = JoinRule(takes_failures=True)
ANY: Final = JoinRule(at_least=1)
# The rule of a gather. No document names it.
SETTLED: Final = JoinRule(takes_failures=True, needs_one=True)
# The most predecessors of a step with an early join: it is decided at the end of each of them.
MAX_EARLY_PREDECESSORS: Final = 64
