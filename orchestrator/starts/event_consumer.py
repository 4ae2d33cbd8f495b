"""The chore of the tick that reads the event feed, and notes what fires for it.

A batch of events, the fires that follow from it, and how far was read are one transaction: an event is read
once, whatever dies in between. What fires is only noted here, and starts later (firing.py): a run that cannot
start stops no other, and the reading goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeweave.errors import CursorExpired, InvalidInput
from pipeweave.orchestrator.feed import FeedEvent, Place, Seen, consumer_row, feed, place_text
from pipeweave.orchestrator.starts import event_documents
from pipeweave.orchestrator.starts.fires import depths as found_depths
from pipeweave.orchestrator.starts.hooks import hook_fires
from pipeweave.orchestrator.starts.triggers import event_fires
from pipeweave.orchestrator.starts.triggers.row import PIPELINE_COMPLETED, TASK_COMPLETED
from pipeweave.orchestrator.store.database import Database, Transaction

log = logging.getLogger(__name__)

# One tick reads at most so many batches of so many events; the next tick goes on.
BATCHES = 10
BATCH = 500

# SQL: whether anything fires for events.
IS_DUE = "EXISTS (SELECT 1 FROM event_reader)"


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


_LOCK = f"""
SELECT CAST(e.since AS text) AS since, e.place, :now - e.read_at > interval '1 hour' AS is_old,
    {feed.written_by("e")} AS written_by
FROM event_reader AS e FOR NO KEY UPDATE SKIP LOCKED
"""
_MOVE = "UPDATE event_reader SET place = :place, read_at = :now"


# Each is found without reading all triggers.
_WANTED = """
SELECT EXISTS (SELECT 1 FROM triggers AS t WHERE t.kind = 'event' AND t.enabled
               AND t.event = 'pipeline-completed') AS runs,
       EXISTS (SELECT 1 FROM triggers AS t WHERE t.kind = 'event' AND t.enabled
               AND t.event = 'task-completed') AS tasks,
       EXISTS (SELECT 1 FROM pipeline_versions AS v WHERE v.hooks IS NOT NULL) AS hooks
"""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What fires for events: triggers of the ends of runs, of the ends of task runs, and hooks."""

    runs: bool
    tasks: bool
    hooks: bool

    @property
    def kinds(self) -> set[str]:
        """The kinds of events that are wanted."""
        of_runs = {PIPELINE_COMPLETED} if self.runs or self.hooks else set()
        return of_runs | ({TASK_COMPLETED} if self.tasks else set())


def _wanted(tx: Transaction) -> _Wanted:
    found = tx.execute(_WANTED).one()
    return _Wanted(found.runs, found.tasks, found.hooks)


def read(tx: Transaction) -> tuple[int, bool]:
    """Read one batch of events, and note what fires for them.

    Returns:
        How many fires were noted, and whether there may be more events.
    """
    state = tx.execute(_LOCK, {"now": tx.now}).one_or_none()
    if state is None:
        return 0, False
    kinds = _wanted(tx).kinds
    if not kinds:
        _stop(tx)
        return 0, False
    place = Place(Seen(int(state.since))) if state.place is None else _kept(tx, state)
    missed = feed.missed_months(tx, place.seen, place.at) if place.at else []
    if missed:
        # What still exists is read: it comes after the place as before.
        log.warning("triggers.events_missed", extra={"reason": "history was dropped", "months": missed})
    types = [name for name, (kind, _) in event_documents.KINDS.items() if kind in kinds]
    batch = feed.read_after(tx, place, types=types, limit=BATCH)
    noted = 0
    if batch.events:
        # A trigger may have been stored since, and an event of this batch may be later than that.
        wanted = _wanted(tx)
        if wanted.kinds - kinds:
            return 0, True
        noted = _note(tx, batch.events, has_hooks=wanted.hooks)
    # An idle deployment writes nothing, but the place must not become too old.
    if not place.at or state.is_old or missed or _has_moved(place, batch.place):
        tx.execute(_MOVE, {"place": place_text.write(batch.place, feed.identity(tx)), "now": tx.now})
    return noted, batch.more


def _stop(tx: Transaction) -> None:
    """Read no more events until something fires for them again."""
    # What was stored while this waited for nobody is seen only by statements after the lock.
    if consumer_row.lock_to_remove(tx) and not _wanted(tx).kinds:
        consumer_row.remove(tx)


def _has_moved(before: Place, after: Place) -> bool:
    return (before.seen, before.next, before.seq) != (after.seen, after.next, after.seq)


def _kept(tx: Transaction, state: Any) -> Place:
    """Where the reading goes on: at the place that was kept. In a database that was restored from a dump, its
    numbers are another server's, and what was written since the restore is read.
    """
    try:
        return feed.own_place(tx, state.place)
    except (CursorExpired, InvalidInput) as error:
        log.warning("triggers.events_missed", extra={"reason": error.detail, "months": []})
        return Place(Seen(state.written_by))


def _note(tx: Transaction, events: Sequence[FeedEvent], *, has_hooks: bool) -> int:
    """Note what fires for these events; how much that is."""
    triggers = event_fires.triggers(tx, {each.tenant for each in events})
    candidates = event_fires.candidates(triggers, events)
    hooks = hook_fires.of_ends(tx, events) if has_hooks else {}
    concerned = [each for each in events if each.seq in candidates or each.seq in hooks]
    found = event_documents.of_events(tx, concerned)
    known = [each for each in concerned if each.seq in found]
    depths = found_depths(tx, {each.run_id for each in known})
    fires = [
        fire
        for each in known
        for fire in event_fires.fires(tx, candidates.get(each.seq, ()), each, found[each.seq], depths)
    ]
    called = [
        fire
        for each in known
        for fire in hook_fires.fires(tx, hooks.get(each.seq, ()), each, found[each.seq], depths)
    ]
    event_fires.write(tx, fires)
    hook_fires.write(tx, called)
    return len(fires) + len(called)
