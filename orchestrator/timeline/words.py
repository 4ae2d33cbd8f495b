"""Says in words what the duration of a run was spent on. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeweave.orchestrator.timeline.spans import PhaseKind

# What each kind is called where people read it.
WORDS: Mapping[PhaseKind, str] = {
    PhaseKind.WORK: "work",
    PhaseKind.FAILED_WORK: "attempts that failed",
    PhaseKind.ITEMS: "items of maps",
    PhaseKind.ASLEEP: "asleep",
    PhaseKind.APPROVAL: "waiting for an approval",
    PhaseKind.SIGNAL: "waiting for a signal",
    PhaseKind.CHILD: "waiting for runs inside",
    PhaseKind.OUTSIDE: "waiting for the outside",
    PhaseKind.QUEUE: "queue",
    PhaseKind.TASK_LIMIT: "waiting for a slot",
    PhaseKind.TENANT_LIMIT: "waiting for a run slot of the tenant",
    PhaseKind.PAUSE: "paused",
    PhaseKind.RETRY_DELAY: "retry delays",
    PhaseKind.SAME_KEY: "waiting for the same idempotency key",
    PhaseKind.PREDECESSORS: "waiting for predecessors",
    PhaseKind.ENDED: "ended, until a retry",
}
# Sums that a sentence names; what is left is told together.
SUMS_NAMED = 6


def sentence(total_ms: float, sums: Sequence[Mapping[str, Any]]) -> str:
    """`41.2 s = 12.0 s work + 21.4 s waiting for a slot of resize (limit 4) + 2.0 s queue`.

    Args:
        sums: as the ledger answers them, the longest first.
    """
    return f"{took(total_ms)} = {listed(sums)}" if sums else took(total_ms)


def listed(sums: Sequence[Mapping[str, Any]]) -> str:
    """`12.0 s work + 2.0 s queue`."""
    named = [f"{took(each['ms'])} {each['label']}" for each in sums[:SUMS_NAMED]]
    if rest := sums[SUMS_NAMED:]:
        named.append(f"{took(sum(each['ms'] for each in rest))} other")
    return " + ".join(named)


# Kinds of waits that name whom or what they wait for.
_NAMED: Mapping[PhaseKind, str] = {
    PhaseKind.APPROVAL: "waiting for the approval of",
    PhaseKind.SIGNAL: "for signal",
    PhaseKind.CHILD: "for a run of",
}


def label(kind: PhaseKind, task_id: str | None, limit: int | None, waits_for: str | None = None) -> str:
    """What a kind is called: `waiting for a slot of resize (limit 4)`, `for signal paid`."""
    if kind in _NAMED and waits_for is not None:
        return f"{_NAMED[kind]} {waits_for}"
    if kind is not PhaseKind.TASK_LIMIT or task_id is None:
        return WORDS[kind]
    return f"{WORDS[kind]} of {task_id}" + ("" if limit is None else f" (limit {limit})")


def took(ms: float) -> str:
    """A duration with a fitting unit: `0.4 ms`, `950 ms`, `41.2 s`, `12 min 3 s`, `2 h 5 min`."""
    if ms < 10:
        return f"{ms:.1f} ms"
    if ms < 1_000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(int(ms / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"
