"""The ledger of a run adds up exactly, and says of each moment what a reference model says of it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeweave.orchestrator.domain.plan import END
from pipeweave.orchestrator.timeline.critical_path import critical_path
from pipeweave.orchestrator.timeline.dividing import spans
from pipeweave.orchestrator.timeline.ledger import parts, sums
from pipeweave.orchestrator.timeline.spans import (
    EndedAttempt,
    Interval,
    PathPart,
    PhaseChange,
    PhaseKind,
    RunTimes,
    TaskRunTimes,
    TimeSpan,
)

# --- the reference model ----------------------------------------------------------------------------------


@dataclass
class Lived:
    """A step as it is played, moment by moment: `moments[t]` is what it did at the moment `t`."""

    ordinal: int
    needs: tuple[int, ...]
    release: int
    moments: list[PhaseKind] = field(default_factory=list)
    changes: list[PhaseChange] = field(default_factory=list)
    attempts: list[EndedAttempt] = field(default_factory=list)
    queued: int = 0
    started: int = 0

    @property
    def now(self) -> int:
        return self.release + len(self.moments)

    def live(self, kind: PhaseKind, length: int) -> None:
        self.moments += [kind] * length

    def times(self) -> TaskRunTimes:
        return TaskRunTimes(
            ordinal=self.ordinal,
            step_id=f"s{self.ordinal}",
            task_id=f"t{self.ordinal % 3}",
            kind="task",
            status="completed",
            attempt=len(self.attempts) + 1,
            is_limited=any(each is PhaseKind.TASK_LIMIT for each in self.moments),
            created=0,
            queued=self.queued,
            started=self.started,
            finished=self.now,
            attempts=self.attempts,
        )


# How long a step is held, by what; how long it is queued and works; how its failed attempts went before.
Attempt = tuple[int, int, int]
Life = tuple[PhaseKind, int, Sequence[Attempt], int, int]

lengths = st.integers(min_value=0, max_value=9)
# A failed attempt takes time, and its queue does: two transactions are never at one moment.
attempts = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9), lengths), max_size=3)
lives = st.tuples(
    st.sampled_from([PhaseKind.TASK_LIMIT, PhaseKind.PAUSE]), lengths, attempts, lengths, lengths
)
graphs = st.lists(st.tuples(lives, st.sets(st.integers(0, 20), max_size=3)), min_size=1, max_size=8)


def played(graph: Sequence[tuple[Life, set[int]]], admitted: int) -> dict[int, Lived]:
    """Play a run: each step is released when the last of its predecessors ended."""
    run: dict[int, Lived] = {}
    for ordinal, (life, before) in enumerate(graph, start=1):
        needs = tuple(sorted({1 + each % (ordinal - 1) for each in before} if ordinal > 1 else ()))
        step = Lived(ordinal, needs, max((run[each].now for each in needs), default=admitted))
        held_by, held, failed, queued, worked = life
        if held:
            step.changes.append(PhaseChange(step.now, held_by))
            step.live(held_by, held)
        for number, (waited, ran, delay) in enumerate(failed, start=1):
            step.changes.append(PhaseChange(step.now, PhaseKind.QUEUE))
            step.live(PhaseKind.QUEUE, waited)
            begin = step.now
            step.live(PhaseKind.FAILED_WORK, ran)
            step.attempts.append(EndedAttempt(number, begin, step.now, "BOOM"))
            step.changes.append(PhaseChange(step.now, PhaseKind.RETRY_DELAY))
            step.live(PhaseKind.RETRY_DELAY, delay)
        step.queued = step.now
        step.changes.append(PhaseChange(step.now, PhaseKind.QUEUE))
        step.live(PhaseKind.QUEUE, queued)
        step.started = step.now
        step.live(PhaseKind.WORK, worked)
        run[ordinal] = step
    return run


def as_times(run: dict[int, Lived], admitted: int, *, has_events: bool = True) -> RunTimes:
    return RunTimes(
        admitted,
        max(each.now for each in run.values()),
        False,
        {ordinal: each.times() for ordinal, each in run.items()},
        {ordinal: each.needs for ordinal, each in run.items()},
        {ordinal: each.changes for ordinal, each in run.items()} if has_events else {},
    )


def expected(run: dict[int, Lived], admitted: int) -> Counter[PhaseKind]:
    """What the reference model says: walk back from the end, one moment at a time."""
    found: Counter[PhaseKind] = Counter({PhaseKind.TENANT_LIMIT: admitted})
    step: Lived | None = max(run.values(), key=lambda each: (each.now, each.started > 0, each.ordinal))
    while step is not None:
        found.update(step.moments)
        before = [run[each] for each in step.needs]
        step = max(before, key=lambda each: (each.now, each.started > 0, each.ordinal), default=None)
    return Counter({kind: count for kind, count in found.items() if count})


# --- what holds -------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(graphs, st.integers(0, 9))
def test_the_ledger_says_what_the_reference_model_says(
    graph: list[tuple[Life, set[int]]], admitted: int
) -> None:
    run = played(graph, admitted)
    times = as_times(run, admitted)
    found: Counter[PhaseKind] = Counter()
    for each in sums(parts(times, critical_path(times))):
        found[each.kind] += each.length
    assert found == expected(run, admitted)


@settings(max_examples=60)
@given(graphs, st.integers(0, 9))
def test_without_its_events_it_still_adds_up_and_knows_the_work(
    graph: list[tuple[Life, set[int]]], admitted: int
) -> None:
    run = played(graph, admitted)
    times = as_times(run, admitted, has_events=False)
    found = sums(parts(times, critical_path(times)))
    assert sum(each.length for each in found) == times.end
    wanted = expected(run, admitted)
    for kind in (PhaseKind.WORK, PhaseKind.FAILED_WORK, PhaseKind.TENANT_LIMIT):
        assert sum(each.length for each in found if each.kind is kind) == wanted[kind]


moments = st.none() | st.integers(0, 60)
wild_times = st.builds(
    TaskRunTimes,
    ordinal=st.just(1),
    step_id=st.just("a"),
    task_id=st.just("t"),
    kind=st.sampled_from(["task", "map"]),
    status=st.sampled_from(["pending", "ready", "queued", "running", "waiting", "completed", "cancelled"]),
    attempt=st.integers(1, 4),
    is_limited=st.booleans(),
    created=st.just(0),
    queued=moments,
    started=moments,
    finished=moments,
    attempts=st.lists(
        st.builds(EndedAttempt, st.integers(1, 4), moments, st.integers(0, 60), st.none()), max_size=3
    ),
)
# What events tell.
WAITS = (
    PhaseKind.PREDECESSORS,
    PhaseKind.RETRY_DELAY,
    PhaseKind.SAME_KEY,
    PhaseKind.PAUSE,
    PhaseKind.TASK_LIMIT,
    PhaseKind.QUEUE,
    PhaseKind.ITEMS,
)
wild_changes = st.lists(
    st.builds(PhaseChange, st.integers(0, 60), st.none() | st.sampled_from(WAITS)), max_size=6
)
intervals = st.lists(st.builds(Interval, st.integers(0, 60), st.integers(0, 60)), max_size=2)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(wild_times, wild_changes), min_size=1, max_size=4),
    moments,
    st.integers(0, 60),
    st.booleans(),
    intervals,
    intervals,
)
def test_it_adds_up_whatever_rows_and_events_say(
    steps: list[tuple[TaskRunTimes, list[PhaseChange]]],
    started: int | None,
    end: int,
    is_open: bool,
    pauses: list[Interval],
    overs: list[Interval],
) -> None:
    numbered = {
        number: TaskRunTimes(**{**_fields(row), "ordinal": number})
        for number, (row, _) in enumerate(steps, 1)
    }
    run = RunTimes(
        started,
        end,
        is_open,
        numbered,
        {number: tuple(range(1, number)) for number in numbered},
        {number: changes for number, (_, changes) in enumerate(steps, 1)},
        pauses,
        overs,
    )
    found = parts(run, critical_path(run))
    assert sum(each.length for each in sums(found)) == end
    at = 0
    for each in found:
        assert each.span.begin == at < each.span.end, "one after the other, without a gap"
        at = each.span.end


def _fields(row: TaskRunTimes) -> dict[str, object]:
    return {name: getattr(row, name) for name in row.__dataclass_fields__}


@settings(max_examples=60)
@given(wild_times, wild_changes)
def test_the_spans_of_a_task_run_have_no_gap(row: TaskRunTimes, changes: list[PhaseChange]) -> None:
    found = spans(row, changes, 100)
    assert all(before.end == after.begin for before, after in itertools.pairwise(found))
    assert all(each.begin < each.end for each in found)


# --- by example -------------------------------------------------------------------------------------------


def a_step(ordinal: int, **given: object) -> TaskRunTimes:
    usual: dict[str, object] = {
        "step_id": f"s{ordinal}",
        "task_id": "resize",
        "kind": "task",
        "status": "completed",
        "attempt": 1,
        "is_limited": False,
        "created": 0,
        "queued": None,
        "started": None,
        "finished": None,
    }
    return TaskRunTimes(ordinal=ordinal, **{**usual, **given})  # type: ignore[arg-type]


def lengths_of(run: RunTimes) -> dict[PhaseKind, int]:
    return {each.kind: each.length for each in sums(parts(run, critical_path(run)))}


def test_a_map_takes_as_long_as_the_item_that_ended_last() -> None:
    a_map = a_step(1, kind="map", queued=0, started=0, finished=105, first_item=2, items=8)
    item = a_step(5, kind="item", queued=60, started=70, finished=100, is_limited=True, map_index=3)
    held = {5: [PhaseChange(0, PhaseKind.TASK_LIMIT), PhaseChange(60, PhaseKind.QUEUE)]}
    run = RunTimes(0, 105, False, {1: a_map}, {1: ()}, held, last_items={1: item})
    assert lengths_of(run) == {
        PhaseKind.TASK_LIMIT: 60,
        PhaseKind.QUEUE: 10,
        PhaseKind.WORK: 30,
        PhaseKind.PREDECESSORS: 5,
    }


def test_a_pause_of_the_run_and_its_time_between_an_end_and_a_retry_are_told() -> None:
    first = a_step(1, queued=0, started=0, finished=10)
    second = a_step(
        2, queued=90, started=90, finished=100, attempt=2, attempts=[EndedAttempt(1, 30, 50, "BOOM")]
    )
    changes = {
        2: [PhaseChange(30, PhaseKind.QUEUE), PhaseChange(50, None), PhaseChange(80, PhaseKind.PREDECESSORS)]
    }
    run = RunTimes(
        0,
        100,
        False,
        {1: first, 2: second},
        {1: (), 2: (1,)},
        changes,
        [Interval(10, 30)],
        [Interval(50, 80)],
    )
    assert lengths_of(run) == {
        PhaseKind.WORK: 20,
        PhaseKind.PAUSE: 20,
        PhaseKind.FAILED_WORK: 20,
        PhaseKind.ENDED: 30,
        PhaseKind.PREDECESSORS: 10,
    }


def test_an_open_run_is_told_up_to_now() -> None:
    first = a_step(1, queued=0, started=5, finished=10)
    second = a_step(2, status="ready", queued=10, is_limited=True)
    third = a_step(3, status="pending")
    run = RunTimes(0, 40, True, {1: first, 2: second, 3: third}, {1: (), 2: (1,), 3: (2,)})
    assert lengths_of(run) == {PhaseKind.TASK_LIMIT: 30, PhaseKind.QUEUE: 5, PhaseKind.WORK: 5}
    assert [each.ordinal for each in critical_path(run)] == [1, 2]


def test_a_run_that_never_began_waited_for_its_slot() -> None:
    step = a_step(1, status="cancelled", finished=30)
    run = RunTimes(None, 30, False, {1: step}, {1: ()})
    assert lengths_of(run) == {PhaseKind.TENANT_LIMIT: 30}


def test_a_wait_that_timed_out_was_a_wait_and_no_work_that_failed() -> None:
    timed_out = [EndedAttempt(1, 10, 60, "WAIT_TIMEOUT")]
    times = TaskRunTimes(
        *(1, "ok", "pipeweave:approval", "wait", "timeout", 1, False, 0, 10, 10, 60, "WAIT_TIMEOUT"),
        attempts=timed_out,
        wait=PhaseKind.APPROVAL,
    )
    assert [(each.kind, each.begin, each.end) for each in spans(times, (), 90)] == [
        (PhaseKind.PREDECESSORS, 0, 10),
        (PhaseKind.APPROVAL, 10, 60),
    ]


# --- what takes care of an error, and the ending ----------------------------------------------------------


def test_a_step_whose_error_another_run_handles_waits_for_that_run_and_for_no_retry() -> None:
    ended = EndedAttempt(1, 5, 20, "BOOM")
    step = a_step(1, status="waiting", attempt=1, queued=0, started=5, finished=None, attempts=(ended,))
    assert step.was_handed_on
    kinds = [(each.kind, each.begin, each.end) for each in spans(step, (), 100)]
    assert kinds[-2:] == [(PhaseKind.FAILED_WORK, 5, 20), (PhaseKind.CHILD, 20, 100)]
    retried = a_step(1, status="pending", attempt=2, queued=0, started=5, finished=None, attempts=(ended,))
    assert not retried.was_handed_on
    assert spans(retried, (), 100)[-1].kind is PhaseKind.RETRY_DELAY
    assert not a_step(1, status="failed", attempt=1, finished=20, attempts=(ended,)).was_handed_on


def test_what_follows_the_last_step_is_the_ending_where_there_is_one() -> None:
    step = a_step(1, queued=0, started=0, finished=40)
    plain = RunTimes(0, 100, False, {1: step}, {1: ()})
    without_parts = replace(plain, has_ending=True)
    for each in (plain, without_parts):
        assert parts(each, critical_path(each))[-1].span.kind is PhaseKind.PREDECESSORS
    work = PathPart(TimeSpan(PhaseKind.WORK, 50, 90), None, a_step(1))
    with_ending = replace(plain, has_ending=True, inside={END: [work]})
    of_end = parts(with_ending, critical_path(with_ending))[-3:]
    assert [(each.span.kind, each.length) for each in of_end] == [
        (PhaseKind.CHILD, 10),
        (PhaseKind.WORK, 40),
        (PhaseKind.CHILD, 10),
    ]
