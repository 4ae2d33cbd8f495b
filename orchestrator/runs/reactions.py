"""Says which verbs follow from facts, once the transaction that announced them is durable.

REACTIONS is the one table of who reacts to what. Streams, telemetry, webhooks and flow handlers hang on it:
a feature adds its reaction to the tuple of a fact, and no statement, verb or room below learns of it. A
reaction is a pure function from a fact to a verb, or to None where nothing follows; it must cost nothing
then, for each end of a run asks it. Each verb runs in a transaction of its own, in the order of the table. A
verb that fails is logged and the next one runs: the rows are safe, and a chore of the tick makes up for each
reaction. So a verb must be harmless when it comes twice, and must not be the only way to what it does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pipeweave.orchestrator.domain.facts import Fact, KeysReleased, RunEnded
from pipeweave.orchestrator.engine import key_waiters
from pipeweave.orchestrator.queueing import maintenance_mode
from pipeweave.orchestrator.runs import admission
from pipeweave.orchestrator.store.database import Verb

Reaction = Callable[[Any], Verb | None]


def _enter_maintenance(ended: RunEnded) -> Verb | None:
    """The last open run brings about the maintenance that somebody requested."""
    return maintenance_mode.enter_if_drained if ended.is_awaited else None


def _admit_next_run(ended: RunEnded) -> Verb | None:
    """The run slot goes to the next pending run of the tenant."""
    if ended.limited_tenant is None:
        return None
    return functools.partial(admission.admit, tenant=ended.limited_tenant)


def _free_keys(released: KeysReleased) -> Verb | None:
    """The next task run that waits for a key may execute."""
    return functools.partial(key_waiters.free, run_id=released.run_id, names=released.names)


REACTIONS: Mapping[type[Fact], tuple[Reaction, ...]] = {
    RunEnded: (_enter_maintenance, _admit_next_run),
    KeysReleased: (_free_keys,),
}


def reactions_to(fact: Fact) -> Iterator[Verb]:
    """The verbs that follow from a fact, in their order: what `Database(react=...)` takes."""
    for reaction in REACTIONS[type(fact)]:
        verb = reaction(fact)
        if verb is not None:
            yield verb
