"""What is known of runs that wait, beside the rows: what they must come to, and what was asked of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# In an expected value: whatever it is.
ANY: Any = ...


@dataclass(frozen=True, slots=True)
class Demand:
    """What a run must come to.

    Args:
        status: of the run.
        steps: status by step id; a `timeout` is told from a `failed`.
        output: of its step `end`, with ANY for what is not known before; None where that does not complete.
        children: of all runs below it, the statuses by pipeline; a set where more than one is right.
        spare: names of signals that nothing has to take.
        due: when a step of it wakes (s since the epoch), where that is in its input.
    """

    status: str
    steps: Mapping[str, str]
    output: Any = None
    children: Mapping[str, Collection[str]] = field(default_factory=dict)
    spare: frozenset[str] = frozenset()
    due: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was repeated until it was answered. Times are seconds since the epoch.

    Args:
        deed: `signal`, `approve`, `reject`, `report`, `cancel`, `pause` or `resume`.
        run_id: of the run that it names; of a report, of the task run.
        about: the name of the signal; the task run that is voted on or reported about.
        by: the name of the token; empty for none.
        may: whether it is right: who may not, is late or says otherwise than before, must be refused. None
            where both are right.
        begun: when it was sent first.
        answered: when the answer came.
        tries: how often it was sent.
        status: of the answer; 0 where none came.
        attempt: of a report, whose URL it came by.
        key: what makes its repeats, and equal requests, the same.
    """

    deed: str
    run_id: str
    about: str
    by: str
    may: bool | None
    content: Any
    begun: float
    answered: float
    tries: int
    status: int
    body: Any = None
    attempt: int = 0
    key: str = ""

    @property
    def is_done(self) -> bool:
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class Meant:
    """A run that waits, as it was triggered."""

    token: str
    pipeline_id: str
    demand: Demand


@dataclass(frozen=True, slots=True)
class Waited:
    """What happened outside of the rows.

    Args:
        runs: those that were triggered.
        accepted: by token: the runs that the API answered with.
        asked: what was asked of them.
        finals: when the final answer to a poll was given out first (s since the epoch), by the token of its
            call.
        voters: by pipeline: the names of tokens that may decide its approvals.
    """

    runs: Sequence[Meant] = ()
    accepted: Mapping[str, set[str]] = field(default_factory=dict)
    asked: Sequence[Asked] = ()
    finals: Mapping[str, float] = field(default_factory=dict)
    voters: Mapping[str, frozenset[str]] = field(default_factory=dict)


def fits(value: Any, expected: Any) -> bool:
    """Whether a value is as expected; ANY in it stands for anything."""
    if expected is ANY:
        return True
    if isinstance(expected, Mapping) and isinstance(value, Mapping):
        return value.keys() == expected.keys() and all(fits(value[key], expected[key]) for key in expected)
    if isinstance(expected, list) and isinstance(value, list):
        return len(value) == len(expected) and all(map(fits, value, expected))
    return bool(value == expected)
