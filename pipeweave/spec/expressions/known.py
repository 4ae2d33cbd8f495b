"""Say what an expression may name at its place in a pipeline."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pipeweave.spec.expressions.tree import ROOTS

MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "error": ("step", "code", "message", "kind", "attempts", "details"),
    "loop": ("index", "last"),
    "run": ("id", "pipeline", "createdAt", "outcome"),
    "trigger": ("type", "id", "actor", "timestamp", "payload"),
}
"""The members of the roots that always have the same ones."""

STATUSES: Final = (
    *("completed", "skipped", "failed", "timeout", "cancelled"),
    *("pending", "ready", "queued", "running", "waiting"),
)
"""What `status.<step id>` may be."""

_OUTCOMES: Final = ("completed", "partial", "failed", "cancelled")


def _known_values() -> dict[str, Collection[Any]]:
    return {"run.outcome": _OUTCOMES}


@dataclass(frozen=True, slots=True)
class Known:
    """What `check` compares an expression with.

    Args:
        roots: those that have a value here (default: all but secrets).
        before: ids of the steps whose outputs may be read; None if it is not known.
        excluded: ids of the steps in a branch that excludes this place: only their status may be read.
        elsewhere: ids of the other steps, which do not come before.
        variables: the names of the pipeline's variables; None if it is not known.
        input_schema: of the pipeline; it must be valid. None without one.
        values: the only values that a path may have, by the path as it is written.
        has_now: `now()` has a value here.
    """

    roots: Collection[str] = frozenset(ROOTS) - {"secret"}
    before: Collection[str] | None = None
    excluded: Collection[str] = ()
    elsewhere: Collection[str] = ()
    variables: Collection[str] | None = None
    input_schema: Mapping[str, Any] | None = None
    values: Mapping[str, Collection[Any]] = field(default_factory=_known_values)
    has_now: bool = True

    def steps(self) -> list[str]:
        """The ids of all steps of the pipeline that are known."""
        return [*(self.before or ()), *self.excluded, *self.elsewhere]
