"""Says which verbs follow from facts, once the transaction that announced them is durable.

REACTIONS maps each kind of fact to its reactions. They are for what must follow at once;
what may come a tick later, as hooks and statistics do, reads the feed instead. No statement, verb or earlier
room has to know of a reaction. A reaction is a pure
function from a fact to a verb, or to None when nothing follows. It must be cheap, because it is called at
each end of a run. Each verb runs in its own transaction, in the order of the table. A verb that fails is
logged and the next verb runs: the committed rows are safe, and a chore of the tick does what the verb did
not. So a verb must do no harm when it runs twice, and must not be the only way to its effect.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pipeweave import ids
from pipeweave.orchestrator.domain.facts import (
    ChildEnded,
    ChildrenLeft,
    Fact,
    KeysReleased,
    NewerRun,
    RunEnded,
    RunPaused,
    RunQuiet,
    SignalSent,
    WaitBegan,
)
from pipeweave.orchestrator.engine import key_waiters
from pipeweave.orchestrator.queueing import maintenance_mode
from pipeweave.orchestrator.runs import admission, child_runs, pausing, replacing
from pipeweave.orchestrator.store.database import Verb
from pipeweave.orchestrator.waits import looking

Reaction = Callable[[Any], Verb | None]


def _enter_maintenance(ended: RunEnded | RunQuiet) -> Verb | None:
    """Enter the requested maintenance if this was the last lively run."""
    return maintenance_mode.enter_if_drained if ended.is_awaited else None


def _admit_next_run(ended: RunEnded | RunQuiet) -> Verb | None:
    """Give the free slot to the tenant's next pending run, or to the next one of the key."""
    if ended.limited_tenant is None:
        return None
    key = ended.key if isinstance(ended, RunEnded) else None
    return functools.partial(admission.admit_pending_runs, tenant=ended.limited_tenant, key=key)


def _cancel_old_runs(written: NewerRun) -> Verb | None:
    """Cancel the runs that this one replaces."""
    tenant, pipeline_id, key = written.tenant, written.pipeline_id, written.key
    return functools.partial(replacing.cancel_old, tenant=tenant, pipeline_id=pipeline_id, key=key)


def _free_keys(released: KeysReleased) -> Verb | None:
    """Let the next task run that waits for one of these keys execute."""
    return functools.partial(key_waiters.free, run_id=released.run_id, names=released.names)


def _look_at_waits(began: WaitBegan) -> Verb | None:
    """Look whether what they wait for has come before."""
    keys = [(began.run_id, each) for each in began.task_runs]
    return functools.partial(looking.follow, keys=keys)


def _look_for_signal(sent: SignalSent) -> Verb | None:
    """End the wait that the signal ends."""
    if sent.task_run_id is not None:
        return functools.partial(looking.look_at, keys=[(ids.run_id_of(sent.task_run_id), sent.task_run_id)])
    return functools.partial(looking.look_for_signal, root=sent.run_id, name=sent.name)


def _look_at_parent(ended: ChildEnded) -> Verb | None:
    """End the waits for the children of the run that have ended, or go on with the next ones."""
    return functools.partial(looking.look_for_children, run_id=ended.parent, at_once=True)


def _look_above(quiet: RunQuiet) -> Verb | None:
    """Mark the parent of a quiet run, if nothing else of it works."""
    above = quiet.parent_task_run_id
    return None if above is None else functools.partial(looking.follow, keys=[(ids.run_id_of(above), above)])


def _hold_all(paused: RunPaused) -> Verb | None:
    """Take back what is queued of the run, and pause its children."""
    return functools.partial(pausing.hold_all, run_id=paused.run_id)


def _cancel_children(left: ChildrenLeft) -> Verb | None:
    """Cancel the children that nothing waits for any more."""
    return functools.partial(child_runs.cancel_left, parent=left.run_id)


REACTIONS: Mapping[type[Fact], tuple[Reaction, ...]] = {
    RunEnded: (_enter_maintenance, _admit_next_run),
    NewerRun: (_cancel_old_runs,),
    RunPaused: (_hold_all,),
    RunQuiet: (_enter_maintenance, _admit_next_run, _look_above),
    ChildEnded: (_look_at_parent,),
    ChildrenLeft: (_cancel_children,),
    KeysReleased: (_free_keys,),
    WaitBegan: (_look_at_waits,),
    SignalSent: (_look_for_signal,),
}


def reactions_to(fact: Fact) -> Iterator[Verb]:
    """The verbs that follow from a fact, in their order: what `Database(react=...)` takes."""
    for reaction in REACTIONS[type(fact)]:
        verb = reaction(fact)
        if verb is not None:
            yield verb
