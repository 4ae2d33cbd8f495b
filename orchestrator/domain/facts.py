"""Defines facts: changes that a transaction announces, and that verbs react to after its commit.

`Transaction.announce` takes a fact, `deployment/reactions.py` says which verbs follow. A fact carries ids and
values that its statement returned; a reaction that needs more reads it in its own transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

# A task and one of its idempotency keys.
Name = tuple[str, str]
# A pipeline, and a key of its runs.
KeyName = tuple[str, str]


@dataclass(frozen=True, slots=True)
class RunEnded:
    """A run became final.

    Args:
        run_id: the run.
        is_awaited: whether maintenance waits for the end of the last open run.
        limited_tenant: the run's tenant, if it has a limit of active runs and this run took a run slot, or
            the run had a key.
        key: the one that it had; None without one.
    """

    run_id: UUID
    is_awaited: bool
    limited_tenant: str | None
    key: KeyName | None = None


@dataclass(frozen=True, slots=True)
class NewerRun:
    """A run was written that replaces older ones of its key."""

    tenant: str
    pipeline_id: str
    key: str


@dataclass(frozen=True, slots=True)
class KeysReleased:
    """Task runs of a run that had idempotency keys, or waited for them, ended badly."""

    run_id: UUID
    names: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class RunPaused:
    """A run was paused because a step of it has no attempt left."""

    run_id: UUID


@dataclass(frozen=True, slots=True)
class RunQuiet:
    """Every open task run of a run waits: nothing of it works.

    Args:
        run_id: the run.
        is_awaited: whether maintenance waits for the end of the last lively run.
        limited_tenant: the run's tenant, if it has a limit of active runs and this run held a run slot.
        parent_task_run_id: the task run that waits for the run, of the run that it belongs to.
    """

    run_id: UUID
    is_awaited: bool
    limited_tenant: str | None
    parent_task_run_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class WaitBegan:
    """Task runs of a run wait from now on.

    Args:
        task_runs: their ids.
    """

    run_id: UUID
    task_runs: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class SignalSent:
    """A signal was stored. Waits of any run of the tree may take it.

    Args:
        run_id: the root run.
        name: of the signal.
        task_run_id: the task run whose wait alone may take it; None for any.
    """

    run_id: UUID
    name: str
    task_run_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class ChildEnded:
    """A child run became final, and its parent is to be looked at.

    Args:
        parent: the run that waits for it.
    """

    parent: UUID


@dataclass(frozen=True, slots=True)
class ChildrenLeft:
    """Task runs that waited for children were cancelled: perhaps children of the run are open.

    Args:
        run_id: the parent.
    """

    run_id: UUID


Fact = (
    RunEnded
    | NewerRun
    | RunPaused
    | KeysReleased
    | RunQuiet
    | WaitBegan
    | SignalSent
    | ChildEnded
    | ChildrenLeft
)
