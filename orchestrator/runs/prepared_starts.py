"""Keeps what the beginnings of a version's runs have in common, so that the next run needs only its own.

The first run of a kind is written the long way (creation.py). Its rows of task runs, its events of them and
what it sent are kept with the catalog snapshot that it was made from, and are forgotten with it. A run of the
same kind differs in its ids alone: they begin as the run's id does, so one replacement gives its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any
from uuid import UUID

import orjson

from pipeweave import ids
from pipeweave.orchestrator.domain.events import QUEUED, Event, together
from pipeweave.orchestrator.domain.outbox import Chord, Outgoing, Released
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.messaging.batching import MESSAGES_PER_FAN_OUT
from pipeweave.orchestrator.queueing.start_conditions import Holds
from pipeweave.orchestrator.registry.snapshot import CatalogSnapshot

# Of one snapshot; a kind is a priority, a queue and labels that triggers ask for, so there are a few.
MOST_KINDS = 16
# Bytes of the rows of one start: a longer one costs what its rows cost, whoever writes them.
LONGEST = 65_536

# Where the beginning of the ids belongs. JSON text has no such character: it is escaped there.
_HEAD = "\0"
# The digits of an id that a run and its task runs do not share.
_OWN_DIGITS = ids.ORDINAL_BITS // 4

Kind = tuple[int | None, str | None, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class PreparedStart:
    """The beginning of the runs of one kind, under the holds that it was written under.

    Args:
        task_runs: JSON text of the rows of the task runs, without the brackets of the list.
        events: JSON text of the rows of their events.
        chords: join and size of each chord.
        released: of each message all but the id of the run.
    """

    holds: Holds
    task_runs: str
    events: str
    chords: tuple[tuple[int, int], ...]
    released: tuple[tuple[Any, ...], ...]

    def rows(self, run_id: str) -> tuple[str, str]:
        """The rows of the task runs of a run, and those of their events.

        Args:
            run_id: its id, as PostgreSQL reads it.
        """
        head = run_id[:-_OWN_DIGITS]
        return self.task_runs.replace(_HEAD, head), self.events.replace(_HEAD, head)

    def outbox(self, run_id: UUID) -> list[Outgoing]:
        """What a run sends when it begins."""
        chords = [Chord(run_id, *each) for each in self.chords]
        return [*chords, *[Released(run_id, *each) for each in self.released]]


def find(catalog: CatalogSnapshot, run: RunHeader, expected: Holds) -> PreparedStart | None:
    """What is kept for a run of this kind; None if there is nothing, or it was written under other holds."""
    prepared: PreparedStart | None = catalog.kept.get(_kind(run))
    if prepared is None or (prepared.holds is not expected and prepared.holds != expected):
        return None
    return prepared


def keep(
    catalog: CatalogSnapshot,
    run: RunHeader,
    expected: Holds,
    rows: Sequence[Any],
    task_runs: Sequence[TaskRun],
    sent: Sequence[Outgoing],
) -> None:
    """Keep how a run began, if the next one of its kind begins in the same way.

    Args:
        rows: of its task runs, as they were written.
        task_runs: the same as values.
        sent: what it sent.
    """
    if not _is_plain(run, task_runs, sent):
        return
    queued = together(QUEUED, [each for each in task_runs if each.status is TaskStatus.QUEUED])
    texts = [orjson.dumps(each).decode()[1:-1] for each in (rows, [event_row(event) for event in queued])]
    if sum(map(len, texts)) > LONGEST:
        return
    head = str(run.id)[:-_OWN_DIGITS]
    if len(catalog.kept) >= MOST_KINDS:
        catalog.kept.clear()
    catalog.kept[_kind(run)] = PreparedStart(
        expected,
        texts[0].replace(head, _HEAD),
        texts[1].replace(head, _HEAD),
        tuple((each.join, each.members) for each in sent if isinstance(each, Chord)),
        tuple(_without_run(each) for each in sent if isinstance(each, Released)),
    )


def event_row(event: Event) -> dict[str, Any]:
    """The columns of an event of a run that has just begun: no attempt of it has."""
    return {"run_id": str(event.run_id), "type": event.type, "data": event.data or None}


def _kind(run: RunHeader) -> Kind:
    requires = tuple(sorted(run.requires.items())) if run.requires else ()
    return run.priority, run.queue, requires


def _is_plain(run: RunHeader, task_runs: Sequence[TaskRun], sent: Sequence[Outgoing]) -> bool:
    """Whether nothing but the snapshot and the holds decided how the run began: every entry step has its
    message, and no message is as wide as the workers that are there now.
    """
    if any(each.status not in (TaskStatus.QUEUED, TaskStatus.PENDING) for each in task_runs):
        return False
    released = [each for each in sent if isinstance(each, Released)]
    names = {each.task_id for each in released}
    return (
        all(task_runs[ordinal - 1].status is TaskStatus.QUEUED for ordinal in run.plan.entries)
        and all(isinstance(each, Released | Chord) for each in sent)
        and len(released) == len(names) < MESSAGES_PER_FAN_OUT
    )


def _without_run(each: Released) -> tuple[Any, ...]:
    return tuple([getattr(each, field.name) for field in fields(Released)[1:]])
