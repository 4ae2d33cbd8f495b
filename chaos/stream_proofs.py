"""Prove what is promised to who watches a stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from chaos.evidence import Evidence

# What comes from outside: it is stored without a lock on what it is about.
_SENT = frozenset({"run.signalled", "task_run.voted"})


def the_stream_showed_every_event_once(seen: Evidence) -> Iterator[str]:
    """No event is missing, none came twice, none was made up, and those of each thing came in their order."""
    if (watched := seen.watched) is None:
        return
    stored = Counter((each.run_id, each.seq, each.type, each.task_run_id) for each in seen.records.events)
    shown = Counter(watched.events)
    yield from (f"the client could not go on: {each}" for each in watched.refused)
    yield from (f"{each} was not shown" for each in stored - shown if each not in watched.read)
    yield from (f"{each} was shown too often, or is not stored" for each in shown - stored)
    last: dict[str, int] = {}
    for run_id, seq, type, task_run_id in watched.events:
        if type.startswith("task_runs.") or type in _SENT:
            continue  # of many, or beside what happens: their transactions may end in another order
        thing = task_run_id or run_id
        if seq < last.get(thing, 0):
            yield f"{thing}: {seq} ({type}) was shown after {last[thing]}"
        last[thing] = max(seq, last.get(thing, 0))
