"""Prove what is promised to workers with different code: each call is of code that its worker has, and
nothing else uses up attempts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from chaos.catalogue import ATTEMPTS, PLENTY, REMOTE, TASKS
from chaos.evidence import Evidence

# Attempts with these outcomes have been called. Of a lost one, nobody may know.
_CALLED = frozenset({"failed", "timeout"})
# Codes of attempts of an HTTP service that it may never have begun: it was not reached, or died with them.
_NOT_BEGUN = frozenset({"DISPATCH_FAILED", "TIMEOUT", "HEARTBEAT_LOST"})
# The code of attempts that could not begin, because storage was away.
_AWAY = "UNAVAILABLE"


def each_task_was_called_by_workers_that_have_it(seen: Evidence) -> Iterator[str]:
    """In the code that they were told to load; and a pinned run called each task in one code only."""
    codes: dict[tuple[str, str], set[str]] = defaultdict(set)
    for (name, _), begun in seen.begun.items():
        for note in begun:
            if note.task_id not in TASKS[note.part] or note.part not in note.parts.split(","):
                yield f"{name} ({note.task_id}) was called in {note.part} by a worker that has {note.parts}"
            codes[note.run_id, note.task_id].add(note.part)
    for (run_id, task_id), parts in codes.items():
        if len(parts) > 1 and run_id in seen.planned_of and seen.is_pinned(run_id):
            yield f"{run_id} is pinned, but called {task_id} in {' and '.join(sorted(parts))}"


def no_attempt_was_used_up_without_a_call(seen: Evidence) -> Iterator[str]:
    """Attempts that failed or timed out were called. Those that were interrupted, or never began because
    storage was away, are not counted.
    """
    for row in filter(lambda each: each.is_called, seen.records.task_runs.values()):
        ended = seen.records.attempts.get(row.id, {})
        unbegun = [
            each for each in ended.values() if each.code == _AWAY and (row.id, each.number) not in seen.begun
        ]
        for each in ended.values():
            if each in unbegun or (row.task_id in REMOTE and each.code in _NOT_BEGUN):
                continue
            if each.status in _CALLED and (row.id, each.number) not in seen.begun:
                how = f"{each.status} ({each.code})"
                yield f"{row.id} attempt {each.number} ({row.task_id}): {how}, but was never called"
        more = row.max_attempts - ATTEMPTS.get(row.task_id, PLENTY)
        never = sum(each.status == "interrupted" for each in ended.values()) + len(unbegun)
        if more < never:
            yield f"{row.id} ({row.task_id}): {never} attempts did not count, but {more} more are allowed"
