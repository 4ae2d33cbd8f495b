"""Adds groups of runs and attempts up to the rows of statistics (pure).

Each group counts in several rows: those of its pipeline and of the tenant, or of its task, its service and
the tenant; and of each of them those of its minute, its hour, its day, and of all time. Of waits that ended
there is one row for each kind, of all time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pipeweave.orchestrator.telemetry.statistics.grains import Grain, at_minute
from pipeweave.orchestrator.telemetry.statistics.histogram import Durations, add_counts

TENANT, PIPELINE, SERVICE, TASK, WAIT = "tenant", "pipeline", "service", "task", "wait"

RUN_COUNTS = ("created", "started", "completed", "partial", "failed", "cancelled", "steps_sum")
RUN_ENDS = ("completed", "partial", "failed", "cancelled")
# How attempts end.
OUTCOMES = ("completed", "failed", "timed_out", "lost", "interrupted", "cancelled")
TASK_COUNTS = (*OUTCOMES, "cached", "retried", "again", "dead", "dead_timed_out", "redriven")
_OUTCOME = {"timeout": "timed_out"}

# Error codes of one row; further ones count as OTHER_CODES.
MOST_CODES = 100
OTHER_CODES = "OTHER"


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """What a row of statistics is about."""

    tenant: str
    scope: str
    id: str
    grain: Grain
    at: datetime


@dataclass(slots=True)
class Tally:
    """Numbers by name, and the durations of what ended (`took`) and of what began (`wait`).

    Args:
        codes: attempts that did not complete, by `outcome/error code`.
        steps: runs that ended by the bucket of their task runs; `steps_sum` of `counts` adds those up.
    """

    counts: dict[str, int] = field(default_factory=dict)
    took: Durations = field(default_factory=Durations)
    wait: Durations = field(default_factory=Durations)
    codes: dict[str, int] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Add another tally to this one."""
        add_counts(self.counts, other.counts)
        add_counts(self.codes, other.codes)
        add_counts(self.steps, other.steps)
        self.took.add(other.took)
        self.wait.add(other.wait)


Tallies = dict[Key, Tally]


def of_groups(groups: Iterable[Any], now: datetime, *, has_totals: bool = True) -> tuple[Tallies, Tallies]:
    """The rows that groups count in: those of runs, and those of attempts.

    Args:
        groups: rows of `counting.groups_sql`.
        now: rows that would have expired by now are left out.
        has_totals: whether the rows of all time are among them.
    """
    grains = [each for each in Grain if has_totals or each is not Grain.EVER]
    runs: _Minutes = {}
    tasks: _Minutes = {}
    for group in groups:
        if group.wait_kind is not None:
            _add(tasks, group, [(WAIT, group.wait_kind)], Tally({}, _took(group)))
        elif group.task_id is None:
            _add(runs, group, ((PIPELINE, group.pipeline_id), (TENANT, "")), _of_runs(group))
        elif counts := dict.fromkeys(_names(group), group.number):
            scopes = [(TASK, group.task_id), (TENANT, "")]
            scopes += [] if group.service_id is None else [(SERVICE, group.service_id)]
            _add(tasks, group, scopes, Tally(counts, _took(group), _wait(group), _codes(group)))
    return _by_grain(runs, grains, now), _by_grain(tasks, grains, now)


# Tallies by tenant, scope, id and minute.
_Minutes = dict[tuple[str, str, str, int], Tally]


def _of_runs(group: Any) -> Tally:
    name = group.type.removeprefix("run.")
    counts = {} if name == "running" else {name: group.number}
    if group.is_started:
        counts["started"] = group.number
    steps = {}
    if group.steps is not None:
        counts["steps_sum"] = int(group.steps_sum)
        steps[str(group.steps)] = group.number
    return Tally(counts, _took(group), _wait(group), steps=steps)


def _names(group: Any) -> Iterator[str]:
    """The counts that a group of attempts is in."""
    if group.outcome is not None:
        yield _OUTCOME.get(group.outcome, group.outcome)
        if group.type == "task_run.retrying":
            yield "retried"
    if group.is_again and group.outcome == "completed":
        yield "again"
    if group.type in ("task_run.failed", "task_run.timed_out"):
        yield "dead"
    if group.type == "task_run.timed_out":
        yield "dead_timed_out"


def _codes(group: Any) -> dict[str, int]:
    if group.code is None or group.outcome is None or group.outcome in ("completed", "cached", "redriven"):
        return {}
    return {f"{_OUTCOME.get(group.outcome, group.outcome)}/{group.code}": group.number}


def _took(group: Any) -> Durations:
    return _durations(group.took, group.number, group.took_sum, group.took_min, group.took_max)


def _wait(group: Any) -> Durations:
    return _durations(group.wait, group.number, group.wait_sum, group.wait_min, group.wait_max)


def _durations(bucket: int | None, number: int, total: Any, least: Any, most: Any) -> Durations:
    return Durations() if bucket is None else Durations({bucket: number}, total, least, most)


def _add(minutes: _Minutes, group: Any, scopes: Iterable[tuple[str, str]], tally: Tally) -> None:
    for scope, id in scopes:
        minutes.setdefault((group.tenant_id, scope, id, group.minute), Tally()).add(tally)


def _by_grain(minutes: _Minutes, grains: Iterable[Grain], now: datetime) -> Tallies:
    tallies: Tallies = {}
    for (tenant, scope, id, minute), tally in minutes.items():
        moment = at_minute(minute)
        for grain in grains:
            if scope == WAIT and grain is not Grain.EVER:
                continue
            if grain.kept is None or moment > now - grain.kept:
                key = Key(tenant, scope, id, grain, grain.begin_of(moment))
                tallies.setdefault(key, Tally()).add(tally)
    return tallies


def bounded(codes: Mapping[str, int], known: Iterable[str]) -> dict[str, int]:
    """The error codes of a tally, so that a row does not have more than MOST_CODES of them.

    Args:
        known: those that the row has.
    """
    names = set(known)
    counts: dict[str, int] = {}
    for name, number in sorted(codes.items()):
        if name not in names and len(names) >= MOST_CODES:
            name = f"{name.partition('/')[0]}/{OTHER_CODES}"
        names.add(name)
        add_counts(counts, {name: number})
    return counts
