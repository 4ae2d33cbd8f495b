"""Facts: what a transaction announces, so that others react to it once it is durable.

`Transaction.announce` takes them, `runs/reactions.py` says which verbs follow. A fact carries ids and what
the statement saw; a reaction that needs more reads it in its own transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

# A task and one of its idempotency keys.
Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class RunEnded:
    """A run became final.

    Args:
        run_id: the run.
        is_awaited: maintenance begins when the last open run ends.
        limited_tenant: the run's tenant, if it has a limit of active runs and this run took a run slot.
    """

    run_id: UUID
    is_awaited: bool
    limited_tenant: str | None


@dataclass(frozen=True, slots=True)
class KeysReleased:
    """Task runs of a run that had idempotency keys, or waited for them, ended badly."""

    run_id: UUID
    names: tuple[Name, ...]


Fact = RunEnded | KeysReleased
