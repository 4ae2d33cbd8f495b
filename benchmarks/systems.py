"""Define the interface of a measured system: it runs the DAGs of `shapes` and returns when they are done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

# Seconds after which a DAG that has not ended counts as lost.
DEADLINE_S = 300.0


class System(Protocol):
    """One way to run the same work. Every call returns when the work is done.

    Raises:
        BenchmarkFailed: the work failed, or was not done within DEADLINE_S.
    """

    @property
    def name(self) -> str:
        """`ours`, `celery` or `celery_tuned`."""

    @property
    def processes(self) -> Mapping[str, int]:
        """Its own processes that stay up, by name: process ids."""

    def chain(self, length: int) -> None:
        """Run a chain of no-ops."""

    def fan(self, width: int) -> None:
        """Run 1 → width → 1 no-ops."""

    def mapped(self, count: int) -> None:
        """Run a step for each item of a list, then one that takes all their outputs."""

    def diamonds(self, count: int, clients: int) -> None:
        """Start `count` diamonds by HTTP from `clients` threads."""

    def verify(self) -> None:
        """Raise unless everything that was started is known to be done, each step once."""

    def singles(self, count: int) -> list[tuple[float, float]]:
        """Start one step by HTTP, wait until it is done, and again: seconds to the answer, and in all."""


class BenchmarkFailed(Exception):
    """The work was not done, so there is no figure."""
