"""Arrange the evidence of the proofs: planned and accepted runs, stored rows, and the notes of tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from chaos.changes import Changed
from chaos.faults import Injected
from chaos.model import Expected, expect, settled
from chaos.notes import Note
from chaos.plan import PlannedRun
from chaos.records import BegunWait, Event, Records, Run, SentSignal, TaskRun
from chaos.schedules import Scheduled, started
from chaos.waits.values import Waited
from chaos.watching import Watched

# What is promised: every run goes on so soon (s) after a fault ended or a host vanished.
WITHIN_S = 15.0


@dataclass(frozen=True)
class Evidence:
    """The evidence that the proofs read.

    Args:
        accepted: by token: the runs that the API answered with.
        faults: those that happened.
        changes: those that were asked for.
        within_s: a run goes on within so many seconds after a fault.
        schedules: those that started runs.
        watched: what a client of the stream has seen; None without one.
        hook_calls: by the id of a fire: how often what it calls has answered.
        waited: what is known of runs that wait.
    """

    planned_runs: Sequence[PlannedRun]
    accepted: Mapping[str, set[str]]
    records: Records
    notes: Sequence[Note]
    faults: Sequence[Injected] = ()
    within_s: float = WITHIN_S
    changes: Sequence[Changed] = ()
    schedules: Sequence[Scheduled] = ()
    watched: Watched | None = None
    hook_calls: Mapping[str, int] = field(default_factory=dict)
    waited: Waited = field(default_factory=Waited)

    @cached_property
    def offset(self) -> float:
        """The time since the epoch (s) when the steady clock was 0."""
        return min((each.wall - each.at for each in self.notes), default=0.0)

    @cached_property
    def first(self) -> float:
        """When the first run was stored (s since the epoch)."""
        return min((each.at for each in self.records.events), default=0.0)

    def is_pinned(self, run_id: str) -> bool:
        """Whether a run calls only the code that it began with."""
        return bool(self.planned_of[run_id].shape.document.get("code") == "pinned")

    @cached_property
    def planned_of(self) -> dict[str, PlannedRun]:
        """The planned run of each stored run with a planned token."""
        by_token = {each.token: each for each in self.planned_runs}
        runs = self.records.runs.values()
        return {run.id: by_token[run.token] for run in runs if run.token in by_token}

    @cached_property
    def expected(self) -> dict[str, Expected]:
        """How each of these runs must end."""
        return {run_id: expect(planned.shape) for run_id, planned in self.planned_of.items()}

    @cached_property
    def steps(self) -> dict[str, dict[str, TaskRun]]:
        """By run: the task runs of its steps by step id, items left out."""
        found: dict[str, dict[str, TaskRun]] = {run_id: {} for run_id in self.records.runs}
        for each in self.records.task_runs.values():
            if each.kind != "item":
                found[each.run_id][each.step_id] = each
        return found

    @cached_property
    def items(self) -> dict[str, dict[str, list[TaskRun]]]:
        """By run and step id: the task runs of a map's items, by index."""
        found: dict[str, dict[str, list[TaskRun]]] = defaultdict(lambda: defaultdict(list))
        for each in self.records.task_runs.values():
            if each.kind == "item":
                found[each.run_id][each.step_id].append(each)
        for maps in found.values():
            for items in maps.values():
                items.sort(key=lambda each: each.map_index or 0)
        return found

    def document(self, run_id: str) -> list[dict[str, Any]]:
        """The steps of a run's pipeline."""
        return list(self.planned_of[run_id].shape.document["steps"])

    @cached_property
    def needs(self) -> dict[str, dict[str, list[str]]]:
        """By run: the predecessors of each step."""
        return {
            run_id: {step["id"]: step["needs"] for step in self.document(run_id)}
            for run_id in self.planned_of
        }

    @cached_property
    def begun(self) -> dict[tuple[str, int], list[Note]]:
        """By task run and attempt: the notes of its calls."""
        return self._of("begin")

    @cached_property
    def returned(self) -> dict[tuple[str, int], list[Note]]:
        return self._of("returned")

    @cached_property
    def raised(self) -> dict[tuple[str, int], list[Note]]:
        return self._of("raised")

    def _of(self, kind: str) -> dict[tuple[str, int], list[Note]]:
        found: dict[tuple[str, int], list[Note]] = defaultdict(list)
        for each in self.notes:
            if each.what == kind:
                found[each.task_run_id, each.attempt].append(each)
        return dict(found)

    @cached_property
    def events(self) -> dict[tuple[str, str], list[Event]]:
        """The events by task run and type."""
        found: dict[tuple[str, str], list[Event]] = defaultdict(list)
        for each in self.records.events:
            if each.task_run_id is not None:
                found[each.task_run_id, each.type].append(each)
        return dict(found)

    @cached_property
    def begun_waits(self) -> dict[tuple[str, int], list[BegunWait]]:
        """By task run and attempt: the waits that it began; more than one is wrong."""
        begun: dict[tuple[str, int], list[BegunWait]] = defaultdict(list)
        for each in self.records.begun_waits:
            begun[each.task_run_id, each.attempt].append(each)
        return dict(begun)

    @cached_property
    def children(self) -> dict[str, list[Run]]:
        """By the task run that waits for them: the runs inside of it, oldest first."""
        children: dict[str, list[Run]] = defaultdict(list)
        for each in self.records.runs.values():
            if each.waiter is not None:
                children[each.waiter].append(each)
        for several in children.values():
            several.sort(key=lambda each: (each.created, each.id))
        return dict(children)

    @cached_property
    def taken(self) -> dict[str, list[SentSignal]]:
        """By task run: the signals that its waits took."""
        taken: dict[str, list[SentSignal]] = defaultdict(list)
        for each in self.records.signals:
            if each.taken_by is not None:
                taken[each.taken_by].append(each)
        return dict(taken)

    def root(self, run_id: str) -> str:
        """The first run of the tree that a run is in."""
        return self.line(run_id)[-1]

    def line(self, run_id: str) -> list[str]:
        """A run, and those above it, the first one last."""
        run = self.records.runs.get(run_id)
        return [run_id, *(self.line(run.parent) if run is not None and run.parent is not None else ())]

    def ended(self, row: TaskRun, attempt: int) -> float | None:
        """When an attempt of a task run ended (s since the epoch); None where it did not."""
        before = self.records.attempts.get(row.id, {}).get(attempt)
        if before is not None:
            return before.finished
        return row.finished if row.attempt == attempt else None

    def is_cut_short(self, run: Run) -> bool:
        """Whether this run ended before all its steps did, as fail-fast or a cancel wants."""
        is_cancelled = run.status == "cancelled" and run.id in self.asked_to_cancel
        return is_cancelled or (run.mode == "fail-fast" and self.expected[run.id].run == "failed")

    @cached_property
    def asked_to_cancel(self) -> set[str]:
        """The runs that somebody wanted to cancel: whether it came in time is not always known."""
        changed = {each.run_id for each in self.changes if each.kind == "cancel"}
        felled = {each.run_id for each in self.waited.asked if each.deed == "cancel"}
        return changed | felled | self._superseded

    @cached_property
    def _superseded(self) -> set[str]:
        """The runs that newer ones of their schedules are to cancel: all but the newest."""
        found: set[str] = set()
        for schedule in self.schedules:
            if schedule.policy == "cancel-old":
                fires = [each for each in started(self.records.fires) if each.schedule == schedule.id]
                found |= {str(each.run_id) for each in fires[:-1]}
        return found

    def settled(self, rerun: Changed) -> tuple[set[str], set[str]]:
        """The steps of a rerun that are reused, and those that their choices leave out."""
        broken = {each.step_id for each in self.steps[rerun.run_id].values() if each.status != "completed"}
        for step_id, items in self.items[rerun.run_id].items():
            if any(each.status != "completed" for each in items):
                broken.add(step_id)
        return settled(self.planned_of[rerun.run_id].shape, broken, str(rerun.step))
