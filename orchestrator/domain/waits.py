"""Defines waits and signals as values: what a task run waits for without a worker, and what comes to it.

A wait is the row behind a task run in `waiting`. Everything that comes to it from outside is a signal: one
that the pipeline names, and the vote of a person, the report of a callback or the answer to a poll under a
name of their own. So a signal that comes before its wait is kept, and one that comes twice is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal
from uuid import UUID

from pipeweave import ids

WaitKind = Literal["timer", "signal", "approval", "callback", "poll", "child"]

TIMER: Final = "timer"
SIGNAL: Final = "signal"
APPROVAL: Final = "approval"
CALLBACK: Final = "callback"
POLL: Final = "poll"
CHILD: Final = "child"
WAIT_KINDS: tuple[WaitKind, ...] = (TIMER, SIGNAL, APPROVAL, CALLBACK, POLL, CHILD)

# The end of a wait that has none of its own: later than any run.
NEVER: Final = datetime(9999, 12, 31, tzinfo=UTC)
# What a signal's name that the engine makes begins with; a name of a pipeline has no colon at this place.
OWN_NAMES: Final = ("approval:", "callback:", "poll:")


# The waits of calls that have suspended themselves. Their attempts fail, and may be tried again.
SUSPENDED: Final = (CALLBACK, POLL)


@dataclass(frozen=True, slots=True)
class SuspendedAttempt:
    """A running attempt whose work goes on elsewhere.

    Args:
        worker: who must have it; None for any.
        assets: the files that it has stored, by key.
        logs_path: where its log is in storage; None where that follows from its ids.
    """

    attempt: int
    worker: str | None
    assets: Mapping[str, Any] | None = None
    logs_path: str | None = None

    def to_row(self) -> dict[str, Any]:
        return {
            "attempt": self.attempt,
            "worker": self.worker,
            "assets": None if self.assets is None else dict(self.assets),
            "logs": self.logs_path,
        }


@dataclass(frozen=True, slots=True)
class NewWait:
    """A wait that begins.

    Args:
        task_run_id: the task run that waits from now on.
        names: the signals that end it; None for those that end by time alone, or by a run.
        due_at: when to look next.
        timeout_at: when it ends whatever has come.
        data: what its kind needs, as JSON (see `Wait`).
        suspends: the attempt that suspends itself so; None for an engine step.
    """

    task_run_id: UUID
    kind: WaitKind
    names: tuple[str, ...] | None
    due_at: datetime
    timeout_at: datetime
    data: Mapping[str, Any]
    suspends: SuspendedAttempt | None = None

    def to_row(self) -> dict[str, Any]:
        return {
            "id": str(self.task_run_id),
            "wait": self.kind,
            "names": None if self.names is None else list(self.names),
            "due_at": self.due_at.isoformat(),
            "timeout_at": self.timeout_at.isoformat(),
            "data": dict(self.data),
            **({} if self.suspends is None else self.suspends.to_row()),
        }


@dataclass(frozen=True, slots=True)
class Wait:
    """An open wait.

    Args:
        root_run_id: the run that its signals name.
        attempt: of its task run; it fences the end.
        data: of a child, `run`, its `round` in a loop, its `try`, and what the rounds before gave (`last`,
            `outputs`). With `default`, what it completes with when its time is over; an approval has `title`,
            `assignees`, `needs`, `options`, `form`, `context`, `fourEyes` and `failsWhenRejected`, too; a
            poll has `url`, `intervalMs`, `maxTries`, `tries` so far and its `lastAnswer`; it and a callback
            have `maxRetryDelayMs`, which no retry waits longer than, or null. The wait for a run that takes
            care of an error has its `rule`, the `outcome` of the attempt, and whether it `isDead`.
        needs_storage: a look found that it needs something of storage: who waits for nothing leaves it
            alone.
    """

    run_id: UUID
    task_run_id: UUID
    tenant: str
    root_run_id: UUID
    attempt: int
    kind: WaitKind
    names: tuple[str, ...] | None
    due_at: datetime
    timeout_at: datetime
    data: Mapping[str, Any]
    created_at: datetime
    needs_storage: bool = False

    @property
    def child(self) -> UUID:
        """Of a wait for a child run, the id of that run."""
        return UUID(self.data["run"])

    @property
    def rule(self) -> str | None:
        """The name of the error rule whose run it waits for; None if it waits for anything else."""
        return self.data.get("rule")


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal that no wait has taken.

    Args:
        payload: None where it is in storage, at `payload_path`.
        sent_by: the name of the token; None if that is not known.
        once: what makes a doubled one the same; the voter, for a vote.
    """

    id: UUID
    name: str
    payload: Any
    payload_path: str | None
    sent_by: str | None
    sent_at: datetime
    once: str


def callback_name(task_run_id: UUID, attempt: int) -> str:
    """The name of the report on an attempt that has suspended itself."""
    return f"callback:{ids.show(ids.TASK_RUN, task_run_id)}:{attempt}"


def poll_name(task_run_id: UUID, attempt: int) -> str:
    """The name of the final answer to the polls of an attempt."""
    return f"poll:{ids.show(ids.TASK_RUN, task_run_id)}:{attempt}"


def approval_name(task_run_id: UUID) -> str:
    """The name of the votes on an approval."""
    return f"approval:{ids.show(ids.TASK_RUN, task_run_id)}"
