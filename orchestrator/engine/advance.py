"""What a run does next when some of its task runs became final.

The story of one step: its task run completes; the same transaction looks at each successor. A successor
with one predecessor is decided at once. A narrow join is decided with its row locked, so that of two
transactions completing its last predecessors the second one sees the first. A wide join is not touched: a
part of its chord is counted after the commit, and the message the last part sends comes back here as
`check`. Deciding is pure (pipeweave/spec/rules.py); this module reads the statuses, asks, and writes the
answer through the verbs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import AttemptFailed, InvalidInput, NotFound
from pipeweave.orchestrator.domain.failure import Failure, failure_of
from pipeweave.orchestrator.domain.outbox import Chord, JoinCheck, Part, Released
from pipeweave.orchestrator.domain.plan import END, WIDE, JoinKind
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.engine import maps
from pipeweave.orchestrator.messaging.batching import MESSAGES_PER_FAN_OUT
from pipeweave.orchestrator.queueing import durations, limits
from pipeweave.orchestrator.state import attempts, cancelling, completing, releasing, run_transitions
from pipeweave.orchestrator.state.cancelling import PREDECESSOR_FAILED
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import Decision, Predecessor, rules

T = TaskStatus

# The code of what was open when a failure ended the run.
RUN_FAILED = "RUN_FAILED"


@dataclass(frozen=True, slots=True)
class Claimant:
    """The worker process that goes on with released steps at once, instead of sending messages for them.

    Args:
        worker: the process as claims name it.
        queue: the queue that it serves; steps of other queues are left to other workers.
        room: how many released steps it takes along.
    """

    worker: str
    queue: str
    room: int = 1


@dataclass(slots=True)
class Advance:
    """One transaction's way through a run: what became final, what may go, what goes on here."""

    tx: Transaction
    run: RunHeader
    claimant: Claimant | None = None
    # The queue of whoever caused this: messages about joins go where the last task run ran.
    queue: str = ""
    # Of the message under way: it counts as one part of every gathered join (or map) of its task runs.
    is_counted: bool = True
    # A dead letter is retried: what goes is not counted by any chord, its joins are asked about instead.
    is_reopening: bool = False
    continued: list[TaskRun] = field(default_factory=list)
    limited: set[str] = field(default_factory=set)
    ended: bool = False
    _room: int = field(init=False)

    def __post_init__(self) -> None:
        self._room = 0 if self.claimant is None else self.claimant.room

    # --- the beginning ------------------------------------------------------------------------------------

    def begin(self, entries: Sequence[TaskRun]) -> None:
        """Send the entry steps of a run that was just written; its rows already have their first status."""
        self.queue = entries[0].queue
        self._open_irregular()
        plain = [each for each in entries if each.kind == "task"]
        mapped = [each.ordinal for each in entries if each.kind == "map"]
        self._open_chords(plain, mapped)
        self._send(plain)
        for ordinal in mapped:
            self._lay_out(ordinal)

    def enter(self) -> None:
        """Let the entry steps of a run go that has waited for its turn: its rows are pending still."""
        self._open_irregular()
        self._release(self.run.plan.entries)

    def _open_irregular(self) -> None:
        plan = self.run.plan
        irregular = [j for j, kind in plan.joins.items() if kind is JoinKind.IRREGULAR]
        self.tx.send(*(Chord(self.run.id, j, len(plan.predecessors(j))) for j in irregular))

    # --- task runs that became final ----------------------------------------------------------------------

    def fail(self, failures: Sequence[tuple[TaskRun, Failure]]) -> list[TaskRun]:
        """End attempts badly, before anything else of their transaction. Those that failed for good.

        Failing fast, each failure would lock its own row, then the run's, then everyone's: of many at once
        each waits for the next one. Taking the run's row first, they queue up, and find themselves cancelled.
        """
        if failures and self.run.failure_mode == rules.FAIL_FAST:
            run_transitions.lock(self.tx, self.run.id)
        ended = attempts.end(self.tx, self.run, failures)
        self._note_freed(ended.retried)
        self.again(ended.due)
        return ended.final

    def again(self, due: Sequence[UUID]) -> None:
        """Send task runs whose next attempt is due."""
        # What a message counted for its join was the end of the message; this one is not counted.
        for each in releasing.release_due(self.tx, self.run.id, due):
            if each.status is T.READY:
                self.limited.add(each.task_id)
            else:
                self.tx.send(as_released(each))

    def _note_freed(self, ended: Iterable[TaskRun]) -> None:
        self.limited |= {each.task_id for each in ended if each.is_limited and each.kind != "map"}

    def settle(
        self, finished: Sequence[TaskRun], selected: Mapping[int, Collection[str]] | None = None
    ) -> None:
        """Take note of task runs that became final, and release or skip what waited for them."""
        self.queue = self.queue or next((each.queue for each in finished), "")
        self._note_freed(finished)
        failed = next((each for each in finished if each.status.value in rules.FAILED), None)
        if failed is not None and self.run.failure_mode == rules.FAIL_FAST:
            self._fail_run(failed)
            return
        self._settle_items([each for each in finished if each.kind == "item"])
        steps = {each.ordinal: each for each in finished if each.kind != "item"}
        self._settle_steps({number: _predecessor(each, selected) for number, each in steps.items()}, steps)
        if not self.ended and any(each.kind == "map" and each.attempt > 1 for each in finished):
            # It was reopened: all that is behind it may have ended before.
            self.check(END)

    def _settle_steps(self, known: dict[int, Predecessor], steps: Mapping[int, TaskRun]) -> None:
        """Decide the successors of final steps, then the successors of those that were skipped, and so on."""
        frontier = list(known)
        while frontier and not self.ended:
            joins = self._successors(frontier, steps)
            decisions = self._decide_or_end(joins, known)
            frontier = self._skip(decisions, known)
            self._release([j for j, decision in decisions.items() if decision is Decision.RUN and j != END])
            if decisions.get(END) is Decision.RUN:
                self._finish_run()

    def _successors(self, frontier: Iterable[int], steps: Mapping[int, TaskRun]) -> list[int]:
        """The joins to decide here. Parts of wide joins go to the outbox instead."""
        here: dict[int, None] = {}
        checks: dict[int, None] = {}
        for ordinal in frontier:
            for join in self.run.plan.successors(ordinal):
                kind = self.run.plan.joins[join]
                if not kind.is_wide:
                    here[join] = None
                elif self.is_reopening:
                    checks[join] = None
                elif kind is JoinKind.IRREGULAR or _counts_itself(steps.get(ordinal)):
                    self.tx.send(Part(self.run.id, join, self.queue, ordinal=ordinal))
                    if _may_have_counted(steps.get(ordinal)):
                        checks[join] = None
                elif ordinal not in steps or not self.is_counted:
                    # Skipped in this very transaction, or of a message that does not count: PostgreSQL knows.
                    checks[join] = None
        self.tx.send(*(JoinCheck(self.run.id, join, self.queue) for join in checks))
        return sorted(here, reverse=True)

    def _settle_items(self, items: Sequence[TaskRun]) -> None:
        for parent in sorted({each.map_parent for each in items if each.map_parent is not None}):
            mine = [each for each in items if each.map_parent == parent]
            if not maps.is_wide(self.tx, self.run.id, parent):
                self.check(parent)
                continue
            for each in mine:
                if each.is_limited:
                    self.tx.send(Part(self.run.id, parent, self.queue, ordinal=each.ordinal))
            if not self.is_counted and any(not each.is_limited or _may_have_counted(each) for each in mine):
                self.tx.send(JoinCheck(self.run.id, parent, self.queue))

    # --- joins --------------------------------------------------------------------------------------------

    def check(self, join: int) -> None:
        """Release a join, finish a map or end the run, if everything it waits for is final in PostgreSQL."""
        if 0 < join <= len(self.run.plan.steps) and self.run.plan[join].step.map is not None:
            self._check_map(join)
        else:
            self.decide([join])

    def decide(self, joins: Sequence[int]) -> None:
        """Release or skip steps, as PostgreSQL has their predecessors, or end the run; maps must be pending
        still.
        """
        known: dict[int, Predecessor] = {}
        decisions = self._decide_or_end(joins, known)
        if decisions.get(END) is Decision.RUN:
            self._finish_run()
        self._release(
            [each for each, decision in decisions.items() if decision is Decision.RUN and each != END]
        )
        if skipped := self._skip(decisions, known):
            self._settle_steps({each: known[each] for each in skipped}, {})

    def _check_map(self, join: int) -> None:
        match maps.lock(self.tx, self.run.id, join):
            case T.PENDING:
                self.decide([join])
            case T.WAITING if (ending := maps.ending(self.tx, self.run, join)) is not None:
                self._finish_map(join, ending)
            case None | T.WAITING:
                return
            case _:
                self.decide([join])

    def _finish_map(self, join: int, ending: maps.Ending) -> None:
        if ending.failure is not None:
            self._fail_map(join, ending.failure)
            return
        finished = completing.finish_map(self.tx, self.run.id, join, count=ending.count)
        if finished is not None:
            self.settle([finished])

    def _decide_or_end(self, joins: Sequence[int], known: Mapping[int, Predecessor]) -> dict[int, Decision]:
        """`_decide`, and the end of the run where what follows has gone on already: in a run that was
        reopened, a step may end after its join did, and be the last one to end.
        """
        decisions = self._decide(joins, known)
        if END not in joins and len(decisions) < len(joins):
            decisions |= self._decide([END], {})
        return decisions

    def _decide(self, joins: Sequence[int], known: Mapping[int, Predecessor]) -> dict[int, Decision]:
        """Decide joins: from what this transaction knows, else with their rows locked and the statuses
        read.
        """
        plan = self.run.plan
        unknown = [j for j in joins if any(p not in known for p in plan.predecessors(j))]
        seen: Mapping[int, Predecessor] = known
        if unknown:
            still_open = _lock_joins(self.tx, self.run, unknown)
            wanted = {p for j in unknown if j in still_open for p in plan.predecessors(j)} - known.keys()
            seen = {**_read_predecessors(self.tx, self.run, wanted), **known}
            joins = [j for j in joins if j not in unknown or j in still_open]
        return {j: self._decision(j, seen) for j in joins}

    def _decision(self, join: int, seen: Mapping[int, Predecessor]) -> Decision:
        plan = self.run.plan
        before = {plan[p].id: seen[p] for p in plan.predecessors(join)}
        if join == END:
            waits = any(each.status not in rules.FINAL for each in before.values())
            return Decision.WAIT if waits else Decision.RUN
        return rules.decide_step(self.run.failure_mode, before, plan[join].id)

    # --- what follows from decisions ----------------------------------------------------------------------

    def _skip(self, decisions: Mapping[int, Decision], known: dict[int, Predecessor]) -> list[int]:
        """Skip what was decided so. Adds the skipped steps to `known` and returns their ordinals."""
        plan = self.run.plan
        chosen: dict[bool, list[int]] = {True: [], False: []}
        for join in [j for j, decision in decisions.items() if decision is Decision.SKIP]:
            before = [known[p] for p in plan.predecessors(join) if p in known]
            if len(before) < len(plan.predecessors(join)):
                before = list(_read_predecessors(self.tx, self.run, plan.predecessors(join)).values())
            chosen[rules.follows_failure(before)].append(join)
        skipped: list[int] = []
        for after_failure, ordinals in chosen.items():
            code = PREDECESSOR_FAILED if after_failure else None
            for each in cancelling.skip(self.tx, self.run.id, ordinals, code=code):
                known[each.ordinal] = Predecessor("skipped", None, after_failure)
                skipped.append(each.ordinal)
        return skipped

    def _release(self, ordinals: Sequence[int]) -> None:
        """Let steps go: maps are laid out, one step per finished one goes on here, the others get
        messages.
        """
        plan = self.run.plan
        plain = [each for each in sorted(ordinals) if plan[each].step.map is None]
        along = [] if _feeds_gathered(self.run, plain) else plain[: self._room]
        self._room -= len(along)
        released = releasing.release(
            self.tx,
            self.run.id,
            plain,
            continued=along,
            worker=self.claimant.worker if self.claimant else None,
            queue=self.claimant.queue if self.claimant else None,
        )
        self._send(released)
        mapped = [each for each in sorted(ordinals) if plan[each].step.map is not None]
        self._open_chords(released, mapped)
        for ordinal in mapped:
            self._lay_out(ordinal)

    def _send(self, released: Sequence[TaskRun]) -> None:
        usual = self._usual_seconds(released)
        for each in released:
            match each.status:
                case T.RUNNING:
                    self.continued.append(each)
                case T.READY:
                    self.limited.add(each.task_id)
                case _:
                    seconds = usual.get(each.task_id)
                    self.tx.send(as_released(each, self._joins_of(each), seconds))

    def _usual_seconds(self, released: Sequence[TaskRun]) -> Mapping[str, float]:
        """How long tasks usually take, where so many go out that they travel in chunks."""
        if len(released) < MESSAGES_PER_FAN_OUT:
            return {}
        return durations.find(self.tx, self.run.tenant, {each.task_id for each in released})

    def _joins_of(self, each: TaskRun) -> tuple[int, ...]:
        if each.map_parent is not None:
            return (each.map_parent,)
        if self.is_reopening:
            return ()
        return self.run.plan.gathered(each.ordinal)

    def _open_chords(self, released: Sequence[TaskRun], mapped: Sequence[int]) -> None:
        """Tell Redis how many parts each wide join has: irregular ones when their first predecessor goes."""
        if self.is_reopening:
            return
        members: dict[int, int] = {}
        for each in released:
            for join in self.run.plan.gathered(each.ordinal):
                members[join] = members.get(join, 0) + (1 if each.is_limited else 0)
        for ordinal in mapped:
            for join in self.run.plan.gathered(ordinal):
                members[join] = members.get(join, 0) + 1
        self.tx.send(*(Chord(self.run.id, join, count) for join, count in members.items()))

    def _lay_out(self, ordinal: int) -> None:
        try:
            items = maps.lay_out(self.tx, self.run, ordinal)
        except (AttemptFailed, InvalidInput, NotFound) as error:
            self._fail_map(ordinal, failure_of(error))
            return
        if items is None:
            return
        if not items:
            finished = completing.finish_map(self.tx, self.run.id, ordinal, count=0)
            if finished is not None:
                self.settle([finished])
            return
        if len(items) >= WIDE:
            own = len(items) if items[0].is_limited else 0
            self.tx.send(Chord(self.run.id, ordinal, own))
        self._send(items)

    def _fail_map(self, ordinal: int, failure: Failure) -> None:
        if failed := self.fail([(maps.as_task_run(self.tx, self.run.id, ordinal), failure)]):
            self.settle(failed)

    # --- the end ------------------------------------------------------------------------------------------

    def _fail_run(self, failed: TaskRun) -> None:
        """Fail fast: the first final failure ends the run, and everything still open with it."""
        self.ended = True
        if run_transitions.fail(self.tx, self.run, failed):
            self._cancel_open(RUN_FAILED, f"the run failed at step {failed.step_id}")

    def _cancel_open(self, code: str, message: str) -> None:
        self._note_freed(cancelling.cancel_all(self.tx, self.run.id, code=code, message=message))

    def _finish_run(self) -> None:
        # A run that was reopened may have others open, whose turn it then is.
        self.ended = run_transitions.finish(self.tx, self.run)

    def close(self) -> list[TaskRun]:
        """Fill the limits this transaction touched; last, because their rows are locked last. What goes
        on here.
        """
        if self.limited:
            limits.fill(self.tx, self.run.tenant, self.limited)
        return self.continued


def as_released(each: TaskRun, joins: tuple[int, ...] = (), seconds: float | None = None) -> Released:
    """A queued task run on its way to a message."""
    return Released(
        each.run_id,
        each.ordinal,
        each.attempt,
        each.task_id,
        each.queue,
        each.priority,
        joins,
        seconds=seconds,
    )


def _predecessor(each: TaskRun, selected: Mapping[int, Collection[str]] | None) -> Predecessor:
    chosen = None if selected is None else selected.get(each.ordinal)
    return Predecessor(each.status.value, chosen)


def _counts_itself(task_run: TaskRun | None) -> bool:
    """Limited task runs and maps end on their own, so they count for gathered joins one by one."""
    return task_run is not None and (task_run.is_limited or task_run.kind == "map")


def _may_have_counted(task_run: TaskRun | None) -> bool:
    """One that was reopened ends a second time, which its chord does not count again."""
    return task_run is not None and task_run.attempt > 1


def _feeds_gathered(run: RunHeader, ordinals: Sequence[int]) -> bool:
    """A gathered fan-out goes out in messages that count as parts; nothing of it goes on here."""
    return any(run.plan.gathered(each) for each in ordinals)


_LOCK_STEPS = f"""
SELECT t.id FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id = ANY(CAST(:ids AS uuid[])) AND {releasing.UNDECIDED}
ORDER BY t.id FOR UPDATE
"""
_LOCK_RUN = "SELECT r.id FROM runs AS r WHERE r.id = :run_id AND r.finished_at IS NULL FOR UPDATE"


def _lock_joins(tx: Transaction, run: RunHeader, joins: Sequence[int]) -> set[int]:
    """Lock the joins that are still undecided: steps in the order of their ids, the run itself last."""
    found: set[int] = set()
    steps = [ids.task_run_id(run.id, each) for each in joins if each != END]
    if steps:
        found |= {ids.ordinal_of(row.id) for row in tx.execute(_LOCK_STEPS, {"run_id": run.id, "ids": steps})}
    if END in joins and tx.execute(_LOCK_RUN, {"run_id": run.id}).first() is not None:
        found.add(END)
    tx.catch_up()
    return found


_PREDECESSORS = """
SELECT t.id, t.status, t.selected_next, t.error_code FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id = ANY(CAST(:ids AS uuid[]))
"""


def _read_predecessors(tx: Transaction, run: RunHeader, ordinals: Collection[int]) -> dict[int, Predecessor]:
    """How these steps stand now: a statement of its own after the lock, so that it sees what the lock
    waited for.
    """
    if not ordinals:
        return {}
    wanted = [ids.task_run_id(run.id, each) for each in ordinals]
    rows: Iterable[Any] = tx.execute(_PREDECESSORS, {"run_id": run.id, "ids": wanted})
    return {
        ids.ordinal_of(row.id): Predecessor(
            row.status,
            None if row.selected_next is None else frozenset(row.selected_next),
            row.status == "skipped" and row.error_code == PREDECESSOR_FAILED,
        )
        for row in rows
    }
