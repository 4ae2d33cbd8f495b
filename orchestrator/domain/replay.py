"""Rebuilds a run from its events alone (pure); if no event was lost or added, its rows say the same.

Every change writes its event in its own transaction, so the events of a run, in their order, give the state
of its rows. An event that cannot follow the events before it is a fault: an event between them is missing, or
an event was added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pipeweave.orchestrator.domain import states
from pipeweave.orchestrator.domain.states import RunStatus, TaskStatus
from pipeweave.orchestrator.domain.stored_event import StoredEvent, UnreadableEvent
from pipeweave.size_limits import MAX_TASK_RUNS_PER_RUN

T = TaskStatus


@dataclass(frozen=True, slots=True)
class RebuiltTaskRun:
    """A task run as its events give it. Task runs of a wide step share one value.

    Args:
        was_released: whether its attempt was released: its row has a `queued_at`.
        moved: the event that moved it last.
    """

    status: TaskStatus = T.PENDING
    attempt: int = 1
    was_released: bool = False
    worker: str | None = None
    error_code: str | None = None
    output_hash: str | None = None
    selected_next: tuple[str, ...] | None = None
    map_first: int | None = None
    map_count: int | None = None
    moved: StoredEvent | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RebuiltAttempt:
    """A begun attempt that did not complete; `ended` is the event of its end."""

    outcome: str | None
    worker: str | None
    error_code: str | None
    ended: StoredEvent | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ReplayFault:
    """An event that cannot have happened; `why` says what contradicts it."""

    ordinal: int | None
    event: StoredEvent
    why: str


@dataclass(frozen=True, slots=True)
class RebuiltRun:
    """A run as its events give it.

    Args:
        status: None when the event that created the run is missing.
        has_started: whether it ever was anything but `pending`.
        task_runs: by ordinal.
        attempts: by ordinal and number.
        faults: events that cannot have followed those before them.
        edited_params: the steps whose params were edited for it.
        other_input: the reused steps that have read another input.
        began: the event with which it was no longer `pending`.
        moved: the event that gave it its status.
    """

    status: RunStatus | None
    error_code: str | None
    has_started: bool
    task_runs: Mapping[int, RebuiltTaskRun]
    attempts: Mapping[tuple[int, int], RebuiltAttempt]
    faults: Sequence[ReplayFault]
    edited_params: tuple[str, ...] = ()
    other_input: tuple[str, ...] = ()
    began: StoredEvent | None = field(default=None, compare=False, repr=False)
    moved: StoredEvent | None = field(default=None, compare=False, repr=False)


def rebuild(events: Iterable[StoredEvent]) -> RebuiltRun:
    """Rebuild the run from its events, in their order. Never raises, whatever the events say."""
    run = _Rebuilding()
    for event in events:
        run.apply(event)
    return RebuiltRun(
        run.status,
        run.error_code,
        run.has_started,
        run.task_runs,
        run.attempts,
        run.faults,
        run.edited_params,
        run.other_input,
        run.began,
        run.moved,
    )


@dataclass(slots=True)
class _Rebuilding:
    """The state of a run while its events are applied."""

    status: RunStatus | None = None
    error_code: str | None = None
    has_started: bool = False
    task_runs: dict[int, RebuiltTaskRun] = field(default_factory=dict)
    attempts: dict[tuple[int, int], RebuiltAttempt] = field(default_factory=dict)
    faults: list[ReplayFault] = field(default_factory=list)
    edited_params: tuple[str, ...] = ()
    other_input: tuple[str, ...] = ()
    began: StoredEvent | None = None
    moved: StoredEvent | None = None

    def apply(self, event: StoredEvent) -> None:
        before, had_started = self.status, self.has_started
        self._apply(event)
        if self.status is not before:
            self.moved = event
        if self.has_started and not had_started:
            self.began = event

    def _apply(self, event: StoredEvent) -> None:
        change = _CHANGES.get(event.type)
        if change is None:
            self._fault(event, "is not a type of event")
            return
        try:
            change(self, event)
        except UnreadableEvent as error:
            self._fault(event, str(error))

    def _fault(self, event: StoredEvent, why: str, ordinal: int | None = None) -> None:
        self.faults.append(ReplayFault(event.ordinal if ordinal is None else ordinal, event, why))

    # --- the run ------------------------------------------------------------------------------------------

    def create(self, event: StoredEvent) -> None:
        steps = event.whole("steps", 0)
        if self.status is not None:
            self._fault(event, f"the run is {self.status} already")
        self._enter(_status(event))
        self.edited_params = event.texts("editedParams") or ()
        self.other_input = event.texts("otherInput") or ()
        self.task_runs |= dict.fromkeys(range(1, steps + 1), RebuiltTaskRun())

    def move_run(self, event: StoredEvent) -> None:
        to = RunStatus(event.type.removeprefix("run."))
        self._leave(event, states.run_before(to))
        self.error_code = event.text("errorCode")
        self._enter(to)

    def end_run(self, event: StoredEvent) -> None:
        """Its steps have ended; what follows them runs, and then the run ends."""
        self._leave(event, states.run_before(RunStatus.ERROR_HANDLING))
        self._enter(RunStatus.ERROR_HANDLING)

    def reopen_run(self, event: StoredEvent) -> None:
        self._leave(event, states.run_reopened_from(RunStatus.RUNNING))
        self.error_code = None
        self._enter(RunStatus.RUNNING)

    def pause_run(self, event: StoredEvent) -> None:
        """A pending run stays pending, and the event names that status."""
        self._turn(event, RunStatus.RUNNING, RunStatus.PAUSED)

    def resume_run(self, event: StoredEvent) -> None:
        self._turn(event, RunStatus.PAUSED, RunStatus.RUNNING)

    def _turn(self, event: StoredEvent, before: RunStatus, after: RunStatus) -> None:
        if event.text("status") is not None:
            before = after = _status(event)
        self._leave(event, (before,))
        self._enter(after)

    def _leave(self, event: StoredEvent, allowed: Iterable[str]) -> None:
        if self.status is None:
            self._fault(event, "no event created the run")
        elif self.status not in allowed:
            self._fault(event, f"the run is {self.status}, which this event cannot follow")

    def _enter(self, status: RunStatus) -> None:
        self.status = status
        self.has_started = self.has_started or status not in _UNSTARTED

    # --- task runs ----------------------------------------------------------------------------------------

    def move(
        self,
        event: StoredEvent,
        ordinals: Iterable[int],
        allowed: Iterable[str],
        change: Callable[[RebuiltTaskRun], RebuiltTaskRun],
    ) -> None:
        """Change task runs. All task runs that contradict the event for the same reason make one fault."""
        allowed = frozenset(allowed)
        changed: dict[RebuiltTaskRun, RebuiltTaskRun] = {}
        faults: dict[str, int] = {}
        for ordinal in ordinals:
            before = self.task_runs.get(ordinal)
            if why := _why_not(event, before, allowed):
                faults.setdefault(why, ordinal)
            before = before or RebuiltTaskRun()
            if before not in changed:
                changed[before] = replace(change(before), moved=event)
            self.task_runs[ordinal] = changed[before]
        for why, ordinal in faults.items():
            self._fault(event, why, ordinal)

    def queue(self, event: StoredEvent) -> None:
        """Released, dispatched by a limit or given back; the last two name the status before in `from`."""
        self.move(event, event.ordinals(), _left(event, T.PENDING), lambda each: _released(each, T.QUEUED))

    def make_ready(self, event: StoredEvent) -> None:
        self.move(event, event.ordinals(), _before(T.READY), lambda each: _released(each, T.READY))

    def start(self, event: StoredEvent) -> None:
        """Claimed from a message, or by the worker that completed the predecessor (`from` is pending)."""
        worker = event.text("worker")
        self.move(
            event,
            [event.subject],
            _left(event, T.QUEUED),
            lambda each: _released(each, T.RUNNING, worker),
        )

    def dispatch(self, event: StoredEvent) -> None:
        """An HTTP service has taken the attempt: it runs there from now on."""
        worker = event.text("worker")
        self.move(event, [event.subject], (T.RUNNING,), lambda each: replace(each, worker=worker))

    def complete(self, event: StoredEvent) -> None:
        count = None if "count" not in event.data else event.whole("count", 0)
        chosen, digest = event.texts("selectedNext"), event.text("outputHash")
        self.move(
            event,
            [event.subject],
            _before(T.COMPLETED),
            lambda each: replace(
                each,
                status=T.COMPLETED,
                output_hash=digest,
                selected_next=chosen,
                map_count=each.map_count if count is None else count,
            ),
        )

    def fail(self, event: StoredEvent) -> None:
        status = T.FAILED if event.type == "task_run.failed" else T.TIMEOUT
        code = event.text("errorCode")
        self._end_attempt(event)
        self.move(
            event,
            [event.subject],
            _before(status),
            lambda each: replace(each, status=status, error_code=code),
        )

    def retry(self, event: StoredEvent) -> None:
        attempt = event.whole("nextAttempt", 1)
        self._end_attempt(event)
        self.move(event, [event.subject], _before(T.PENDING), lambda each: _again(each, attempt))

    def _end_attempt(self, event: StoredEvent) -> None:
        """Record how an attempt ended, if it had begun."""
        before = self.task_runs.get(event.subject)
        if before is not None and before.status in _BEGUN:
            ended = RebuiltAttempt(event.text("outcome"), before.worker, event.text("errorCode"), event)
            self.attempts[event.subject, before.attempt] = ended

    def step_back(self, event: StoredEvent) -> None:
        """Claimed, but another task run executes under its idempotency key, or nobody has room for it."""
        self.move(event, [event.subject], [T.RUNNING], lambda each: _again(each, each.attempt))

    def end_together(self, event: StoredEvent) -> None:
        """Skipped or cancelled."""
        status = TaskStatus(event.type.removeprefix("task_runs."))
        code = event.text("errorCode")
        self.move(
            event,
            event.ordinals(),
            _before(status),
            lambda each: replace(each, status=status, error_code=code),
        )

    def lay_out(self, event: StoredEvent) -> None:
        first, count = event.whole("first", 1), event.whole("count", 1)
        if first + count - 1 > MAX_TASK_RUNS_PER_RUN:
            raise UnreadableEvent("its items are more than a run can have")
        self.move(
            event,
            [event.subject],
            [T.PENDING],
            lambda each: replace(_released(each, T.WAITING), map_first=first, map_count=count),
        )
        items = range(first, first + count)
        if taken := next((each for each in items if each in self.task_runs), None):
            self._fault(event, "there is such a task run already", taken)
        self.task_runs |= dict.fromkeys(items, RebuiltTaskRun())

    def wait(self, event: StoredEvent) -> None:
        """A step that waits for a time, a signal or people; nothing was released. Or a call that has
        suspended itself: its attempt goes on elsewhere.
        """
        self.move(
            event,
            [event.subject],
            [T.PENDING, T.RUNNING],
            lambda each: _released(each, T.WAITING, each.worker),
        )

    def handle(self, event: StoredEvent) -> None:
        """The last attempt has failed, and the task run waits for the run that takes care of its error."""
        code = event.text("errorCode")
        self._end_attempt(event)
        self.move(
            event,
            [event.subject],
            [T.PENDING, T.RUNNING, T.WAITING],
            lambda each: replace(_released(each, T.WAITING, each.worker), error_code=code),
        )

    def note(self, event: StoredEvent) -> None:
        """It moves nothing: a signal, or a vote, that a wait may take; a repair of the rows."""

    def reopen(self, event: StoredEvent) -> None:
        attempt = event.whole("nextAttempt", 1)
        # A map whose item is tried again goes back to waiting for its items, and says so.
        is_waiting = event.text("status") == T.WAITING
        change = partial(_waiting_again if is_waiting else _again, attempt=attempt)
        allowed = states.task_reopened_from(T.WAITING if is_waiting else T.PENDING)
        self.move(event, [event.subject], allowed, change)

    def reopen_together(self, event: StoredEvent) -> None:
        """Cancelled or skipped before, or a gather that failed; another attempt follows a cancelled one that
        had started.
        """
        bumped = set(event.ordinals("bumped")) if "bumped" in event.data else set()
        for ordinal in bumped:
            if before := self.task_runs.get(ordinal):
                ended = RebuiltAttempt(T.CANCELLED, before.worker, before.error_code, event)
                # One that was stopped while a run took care of its error has the record of its attempt.
                self.attempts.setdefault((ordinal, before.attempt), ended)
        others = [each for each in event.ordinals() if each not in bumped]
        # A gather has started if a run took care of its error.
        begun = [T.CANCELLED, T.FAILED]
        self.move(event, sorted(bumped), begun, lambda each: _again(each, each.attempt + 1))
        self.move(event, others, [T.CANCELLED, T.SKIPPED, T.FAILED], lambda each: _again(each, each.attempt))


# A worker runs it, or its items are laid out.
_BEGUN = frozenset({T.RUNNING, T.WAITING})
# A run that ends without ever having been admitted never started.
_UNSTARTED = frozenset({RunStatus.PENDING, RunStatus.FAILED, RunStatus.CANCELLED})

_CHANGES: dict[str, Callable[[_Rebuilding, StoredEvent], None]] = {
    "run.created": _Rebuilding.create,
    "run.reopened": _Rebuilding.reopen_run,
    **{f"run.{status}": _Rebuilding.move_run for status in RunStatus if status is not RunStatus.PENDING},
    "run.ending": _Rebuilding.end_run,
    "run.paused": _Rebuilding.pause_run,
    "run.resumed": _Rebuilding.resume_run,
    "task_runs.queued": _Rebuilding.queue,
    "task_runs.ready": _Rebuilding.make_ready,
    "task_runs.skipped": _Rebuilding.end_together,
    "task_runs.cancelled": _Rebuilding.end_together,
    "task_runs.reopened": _Rebuilding.reopen_together,
    "task_run.started": _Rebuilding.start,
    "task_run.dispatched": _Rebuilding.dispatch,
    "task_run.completed": _Rebuilding.complete,
    "task_run.failed": _Rebuilding.fail,
    "task_run.timed_out": _Rebuilding.fail,
    "task_run.retrying": _Rebuilding.retry,
    "task_run.stepped_back": _Rebuilding.step_back,
    "task_run.postponed": _Rebuilding.step_back,
    "task_run.mapped": _Rebuilding.lay_out,
    "task_run.waiting": _Rebuilding.wait,
    "task_run.handling": _Rebuilding.handle,
    "task_run.extended": _Rebuilding.note,
    "task_run.voted": _Rebuilding.note,
    "task_run.secret_masked": _Rebuilding.note,
    "run.signalled": _Rebuilding.note,
    "run.repaired": _Rebuilding.note,
    "task_run.reopened": _Rebuilding.reopen,
}

# The types of events.
TYPES = frozenset(_CHANGES)
# Those that move nothing.
NOTES = frozenset(type for type, change in _CHANGES.items() if change is _Rebuilding.note)


# --- statuses ---------------------------------------------------------------------------------------------


def _before(status: TaskStatus) -> tuple[str, ...]:
    return states.task_before(status)


def _left(event: StoredEvent, *usual: TaskStatus) -> tuple[str, ...]:
    """The status that the event names as left, else the usual statuses."""
    left = event.text("from")
    return usual if left is None else (left,)


def _why_not(event: StoredEvent, before: RebuiltTaskRun | None, allowed: frozenset[str]) -> str | None:
    """Why an event contradicts this task run; None if it does not."""
    if before is None:
        return "no event made the task run"
    if before.status not in allowed:
        return f"the task run is {before.status}, which this event cannot follow"
    if event.attempt not in (None, before.attempt) and event.type != "task_run.reopened":
        return f"it is about attempt {event.attempt}, the task run is at attempt {before.attempt}"
    return None


def _released(task_run: RebuiltTaskRun, status: TaskStatus, worker: str | None = None) -> RebuiltTaskRun:
    return replace(task_run, status=status, was_released=True, worker=worker)


def _again(task_run: RebuiltTaskRun, attempt: int) -> RebuiltTaskRun:
    """Back to pending; of the attempt before, only the items of a map stay."""
    return RebuiltTaskRun(attempt=attempt, map_first=task_run.map_first, map_count=task_run.map_count)


def _waiting_again(task_run: RebuiltTaskRun, attempt: int) -> RebuiltTaskRun:
    return _released(_again(task_run, attempt), T.WAITING)


def _status(event: StoredEvent) -> RunStatus:
    try:
        return RunStatus(event.text("status") or RunStatus.RUNNING)
    except ValueError:
        raise UnreadableEvent("its data.status is not the status of a run") from None
