"""The chore of the tick that reads the event feed, and notes what fires for it.

A batch of events, the fires that follow from it, and how far was read are one transaction: an event is read
once, whatever dies in between. What fires is only noted here, and starts later (firing.py): a run that cannot
start stops no other, and the reading goes on.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeweave.orchestrator.feed import EventStretch, FeedEvent, consumers, stretch
from pipeweave.orchestrator.starts import approval_documents, event_documents
from pipeweave.orchestrator.starts.approval_documents import WAITING
from pipeweave.orchestrator.starts.fires import depths as found_depths
from pipeweave.orchestrator.starts.hooks import hook_fires
from pipeweave.orchestrator.starts.triggers import event_fires
from pipeweave.orchestrator.starts.triggers.row import PIPELINE_COMPLETED, TASK_COMPLETED
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.spec import ON_WAITING

# The consumer of events that notes what fires for them.
CONSUMER = "triggers"

# One tick reads at most so many batches of so many events; the next tick goes on.
BATCHES = 10
BATCH = 5_000
# What fires is noted for so many events at a time.
NOTED_AT_ONCE = 500

# SQL: whether there are events to read.
IS_DUE = consumers.is_due(CONSUMER)


def run_once(database: Database) -> int:
    """Read what is new, and note what fires for it.

    Returns:
        How many fires were noted.
    """
    done = 0
    for _ in range(BATCHES):
        fires, more = database.run(read)
        done += fires
        if not more:
            break
    return done


# What fires for events: triggers of the ends of runs, of the ends of task runs, and hooks, of ends and of
# approvals. Each is found without reading all triggers.
_WANTED = f"""
SELECT EXISTS (SELECT 1 FROM triggers AS t WHERE t.kind = 'event' AND t.enabled
               AND t.event = 'pipeline-completed') AS runs,
       EXISTS (SELECT 1 FROM triggers AS t WHERE t.kind = 'event' AND t.enabled
               AND t.event = 'task-completed') AS tasks,
       EXISTS (SELECT 1 FROM pipeline_versions AS v WHERE v.hooks IS NOT NULL) AS hooks,
       EXISTS (SELECT 1 FROM pipeline_versions AS v WHERE v.hooks ? '{ON_WAITING}') AS approvals
"""


def read(tx: Transaction) -> tuple[int, bool]:
    """Read one batch of events, and note what fires for them.

    Returns:
        How many fires were noted, and whether there may be more events.
    """
    held = consumers.lock(tx, CONSUMER)
    if held is None:
        return 0, False
    span = stretch.ahead(tx, held.seen, limit=BATCH)
    noted = 0 if span.is_empty else _record_all(tx, span)
    consumers.move(tx, held, span)
    return noted, span.more


def _record_all(tx: Transaction, span: EventStretch) -> int:
    """Note what fires for the events of a span. All that was stored before they became visible is seen here:
    this is asked after the span is fixed.
    """
    wanted = tx.execute(_WANTED).one()
    kinds = {PIPELINE_COMPLETED: wanted.runs or wanted.hooks, TASK_COMPLETED: wanted.tasks}
    types = [name for name, (kind, _) in event_documents.KINDS.items() if kinds[kind]]
    types += [WAITING] if wanted.approvals else []
    if not types:
        return 0
    batches = stretch.events(tx, span, types=types, limit=NOTED_AT_ONCE)
    return sum(_record(tx, events, has_hooks=wanted.hooks) for events in batches if events)


def _record(tx: Transaction, events: Sequence[FeedEvent], *, has_hooks: bool) -> int:
    """Note what fires for these events; how much that is."""
    ends = [each for each in events if each.type != WAITING]
    triggers = event_fires.triggers(tx, {each.tenant for each in ends})
    candidates = event_fires.candidates(triggers, ends)
    hooks = hook_fires.of_events(tx, events) if has_hooks else {}
    concerned = [each for each in events if each.seq in candidates or each.seq in hooks]
    documents = {
        **event_documents.of_events(tx, [each for each in concerned if each.type != WAITING]),
        **approval_documents.of_events(tx, concerned),
    }
    known = [each for each in concerned if each.seq in documents]
    depths = found_depths(tx, {each.run_id for each in known} | {each.root for each in hooks.values()})
    fires = [
        fire
        for each in known
        for fire in event_fires.fires(tx, candidates.get(each.seq, ()), each, documents[each.seq], depths)
    ]
    called = [
        fire
        for each in known
        if each.seq in hooks
        for fire in hook_fires.fires(tx, hooks[each.seq], each, documents[each.seq], depths)
    ]
    event_fires.write(tx, fires)
    hook_fires.write(tx, called)
    return len(fires) + len(called)
