"""Advances a run when task runs are final: releases and skips steps, finishes maps, ends the run.

The story of one step: its task run completes, and the same transaction looks at each successor. A successor
with one predecessor is decided at once. A narrow join is decided with its row locked (decide.py), so that of
two transactions that complete its last predecessors the second one sees the change of the first one. A wide
join is not touched: a part of its chord is counted after the commit (chords.py), and the message that a full
chord sends calls `check`. A step that may run is released (release.py): the claimant continues it, or it gets
a message, or it waits for its limit. A step with a condition, or one that the engine decides itself, is acted
on first (acting.py); what ends by that ends in this transaction, and its successors are decided like others.

The decision is pure (pipeweave/spec/rules.py); this module brings the three parts together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from uuid import UUID

from pipeweave.errors import AttemptFailed, InvalidInput, NotFound
from pipeweave.orchestrator.domain import reuse, step_failures
from pipeweave.orchestrator.domain.failure import Failure, failure_of
from pipeweave.orchestrator.domain.outbox import JoinCheck
from pipeweave.orchestrator.domain.plan import END
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import RunStatus, TaskStatus
from pipeweave.orchestrator.domain.task_run import Postponed, TaskRun
from pipeweave.orchestrator.engine import acting, endings, exhausted, maps
from pipeweave.orchestrator.engine.chords import ChordAccounting, Counting
from pipeweave.orchestrator.engine.decide import (
    PASSED_OVER,
    End,
    as_predecessor,
    decide_or_end,
    end_by_decisions,
    end_by_failure,
    skip,
)
from pipeweave.orchestrator.engine.endings import EarlyEnd
from pipeweave.orchestrator.engine.referred_values import NOTHING_LOADED, Loaded, NotLoaded
from pipeweave.orchestrator.engine.release import Claimant, Release
from pipeweave.orchestrator.engine.touched_limits import TouchedLimits
from pipeweave.orchestrator.state import (
    attempts,
    cancelling,
    completing,
    postponing,
    reusing,
    run_transitions,
)
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import Decision, Predecessor, rules

# The code of task runs that were open when a failure ended their run.
RUN_FAILED = "RUN_FAILED"


class Advance:
    """One run in one transaction: task runs become final, and the run goes on. Call `close` at the end.

    Args:
        claimant: the worker that goes on with released steps; None sends messages for all of them.
        queue: where messages about joins go; by default the queue of the first task run that ends.
        counting: how chords count the task runs that end or are released.
        touched: limits to fill at the end, for a transaction that advances several runs: it calls
            `touched.fill` once, after the last run, instead of `close`.
        loaded: values that were loaded from storage before the transaction, for steps that refer to them.
        loads_for: the step whose missing values the caller loads after the transaction (`unloaded`); other
            steps that lack values get join messages.
    """

    def __init__(
        self,
        tx: Transaction,
        run: RunHeader,
        claimant: Claimant | None = None,
        *,
        queue: str = "",
        counting: Counting = Counting.COUNTED,
        touched: TouchedLimits | None = None,
        loaded: Loaded = NOTHING_LOADED,
        loads_for: int | None = None,
    ) -> None:
        self.tx = tx
        self.run = run
        self.touched = TouchedLimits() if touched is None else touched
        # Why the task runs failed that this transaction ended.
        self._causes: dict[UUID, Failure] = {}
        # Whether this transaction ended the run.
        self.ended = False
        self._chords = ChordAccounting(tx, run, counting, queue)
        # Paths in storage of the values that the step `loads_for` lacks.
        self.unloaded: Sequence[str] = ()
        self._loaded = loaded
        self._loads_for = loads_for
        # How many more steps this transaction may act on.
        self._acts_left = acting.MAX_ACTS
        self._releases = Release(tx, run, self._chords, self.touched, claimant)

    # --- the beginning ------------------------------------------------------------------------------------

    def begin(self, entries: Sequence[TaskRun]) -> None:
        """Send the entry steps of a run that was just written: those that run a task are queued or ready
        already, unless they have a condition.
        """
        self._chords.queue = entries[0].queue
        self._chords.open_irregular()
        released = [each for each in entries if each.status is not TaskStatus.PENDING]
        others = [each.ordinal for each in entries if each.status is TaskStatus.PENDING]
        self._chords.open_gathered(released, others)
        self._releases.send(released)
        if others:
            self._let_run(others, opens_chords=False)

    def admit(self) -> None:
        """Release the pending entry steps of a run that is admitted now."""
        if self.run.rerun_from is not None:
            self._begin_rerun()
            return
        self._chords.open_irregular()
        self._let_run(self.run.plan.entries)

    def _let_run(self, ordinals: Sequence[int], *, opens_chords: bool = True) -> None:
        known: dict[int, Predecessor] = {}
        ended: dict[int, TaskRun] = {}
        if done := self._release(ordinals, known, ended, opens_chords=opens_chords):
            self._settle_steps({each: known[each] for each in done}, ended)

    def _begin_rerun(self) -> None:
        """Decide the first steps of a rerun: steps before them may be completed, with results of before."""
        reused = reusing.reused_steps(self.tx, self.run)
        first = reuse.first_steps(self.run.plan, reused)
        self._chords.queue = self._chords.queue or maps.as_task_run(self.tx, self.run.id, first[0]).queue
        self._chords.open_irregular(reused)
        self.decide(first)

    # --- task runs that became final ----------------------------------------------------------------------

    def fail(
        self, failures: Sequence[tuple[TaskRun, Failure]], *, max_retry_delay_ms: int | None
    ) -> attempts.EndedAttempts:
        """End failed attempts, before the transaction writes anything else.

        Under fail-fast a failure locks its own row, then the run's row, then the rows of all other task runs:
        concurrent failures would deadlock. With the run's row locked first they queue up, and the later ones
        find their task runs cancelled. The pause for a step without an attempt left locks that row, too;
        where only the task says so, it does so behind the step's row.

        Args:
            max_retry_delay_ms: no retry waits for longer (ms); None for no such limit.
        """
        if failures and (self.run.failure_mode == rules.FAIL_FAST or self.run.plan.may_pause):
            run_transitions.lock(self.tx, self.run.id)
        self._causes |= {task_run.id: failure for task_run, failure in failures}
        ended = attempts.end(self.tx, self.run, failures, max_retry_delay_ms=max_retry_delay_ms)
        if ended.exhausted:
            exhausted.pause(self.tx, self.run, ended.exhausted)
        self._note_freed(ended.retried)
        if ended.handled:
            # A task run of whose error a run takes care holds no slot any more.
            waiting = {each.id for each in ended.handled}
            self._note_freed([each for each, _ in failures if each.id in waiting])
        self.release_due(ended.due)
        return ended

    def cancel(self, task_ids: Sequence[str], *, code: str, message: str) -> int:
        """Cancel the task runs of these tasks that no worker has claimed, and follow the failure mode of the
        run. Returns how many were cancelled.
        """
        cancelled = cancelling.cancel_tasks(self.tx, self.run.id, task_ids, code=code, message=message)
        self._causes |= {each.id: Failure(code, message, "Cancelled") for each in cancelled}
        self.settle(cancelled)
        return len(cancelled)

    def postpone(self, postponed: Sequence[Postponed]) -> None:
        """Let task runs wait that nobody has room for."""
        self._note_freed(postponing.postpone(self.tx, self.run.id, postponed))

    def release_due(self, task_run_ids: Sequence[UUID]) -> None:
        """Release task runs whose next attempt is due."""
        self._releases.due(task_run_ids)

    def _note_freed(self, ended: Iterable[TaskRun]) -> None:
        freed = [each.task_id for each in ended if each.takes_slot]
        self.touched.note(self.run.tenant, freed)

    def settle(
        self, finished: Sequence[TaskRun], selected: Mapping[int, Collection[str]] | None = None
    ) -> None:
        """Release or skip the steps behind task runs that this transaction made final, or end the run.

        Args:
            selected: the selected successors by the ordinal of their step; a missing step selects all.
        """
        self._chords.queue = self._chords.queue or next((each.queue for each in finished), "")
        self._note_freed(finished)
        if self._end_by_failure(finished):
            return
        self._settle_items([each for each in finished if each.kind == "item"])
        steps = {each.ordinal: each for each in finished if each.kind != "item"}
        chosen = {} if selected is None else selected
        known = {number: as_predecessor(self.run, each, chosen.get(number)) for number, each in steps.items()}
        self._settle_steps(known, steps)
        if not self.ended and any(each.kind == "map" and each.attempt > 1 for each in finished):
            # The map was reopened: all steps behind it may have ended before.
            self.check(END)

    def _end_by_failure(self, finished: Sequence[TaskRun]) -> bool:
        end = end_by_failure(self.run.failure_mode, self.run.plan, finished, self._causes)
        if end is not None:
            self._end(end)
        return end is not None

    def _settle_steps(self, known: dict[int, Predecessor], ended: dict[int, TaskRun]) -> None:
        """Decide the successors of final steps, then the successors of those that ended by it, and so on."""
        frontier = list(known)
        while frontier and not self.ended:
            joins = self._chords.steps_ended(frontier, ended)
            decisions = decide_or_end(self.tx, self.run, joins, known)
            frontier = self._follow(decisions, known, ended)

    def _follow(
        self,
        decisions: Mapping[int, Decision],
        known: dict[int, Predecessor],
        ended: dict[int, TaskRun],
        *,
        opens_chords: bool = True,
    ) -> list[int]:
        """Skip and release steps as it was decided, or end the run. Returns the steps that ended by it; they
        are added to `known`, and to `ended` what did not skip.
        """
        done = skip(self.tx, self.run, decisions, known)
        done += self._release(_to_run(decisions), known, ended, opens_chords=opens_chords)
        if not self.ended and (end := end_by_decisions(decisions)) is not None:
            self._end(end)
        return done

    def _settle_items(self, items: Sequence[TaskRun]) -> None:
        for parent in sorted({each.map_parent for each in items if each.map_parent is not None}):
            mine = [each for each in items if each.map_parent == parent]
            if self.run.plan[parent].step.decides is not None:
                # Each item of a map of pipelines that ends lets the next one begin.
                self._check_map(parent, after=max(each.ordinal for each in mine))
            elif maps.is_wide(self.tx, self.run.id, parent):
                self._chords.items_ended(parent, mine)
            else:
                self.check(parent)

    # --- joins --------------------------------------------------------------------------------------------

    def check(self, join: int) -> None:
        """Release a join, finish a map or end the run, if all its predecessors or items are final.

        Args:
            join: the ordinal of a step or map; END for the end of the run.
        """
        if 0 < join <= len(self.run.plan.steps) and self.run.plan[join].step.has_items:
            self._check_map(join)
        else:
            self.decide([join])

    def decide(self, joins: Sequence[int], *, opens_chords: bool = True) -> None:
        """Release or skip steps, or end the run, by the statuses of their predecessors in PostgreSQL. Maps
        among the steps must still be pending.

        Args:
            opens_chords: whether the chords of gathered joins behind the steps are sized now.
        """
        known: dict[int, Predecessor] = {}
        ended: dict[int, TaskRun] = {}
        decisions = decide_or_end(self.tx, self.run, joins, known)
        if done := self._follow(decisions, known, ended, opens_chords=opens_chords):
            self._settle_steps({each: known[each] for each in done}, ended)

    def _release(
        self,
        ordinals: Sequence[int],
        known: dict[int, Predecessor],
        ended: dict[int, TaskRun],
        *,
        opens_chords: bool,
    ) -> list[int]:
        """Act on steps that wait for values, release those that run a task, and lay out maps. Returns the
        steps that ended by it, as `_follow` does.
        """
        plan = self.run.plan
        done: list[int] = []
        if not plan.waiting_for_values.isdisjoint(ordinals):
            ordinals, done = self._act(ordinals, known, ended)
        called = [each for each in sorted(ordinals) if not plan[each].step.has_items]
        mapped = [each for each in sorted(ordinals) if plan[each].step.has_items]
        released = self._releases.steps(called)
        if opens_chords:
            self._chords.open_gathered(released, mapped)
        for ordinal in mapped:
            self._lay_out(ordinal)
        return done

    # --- steps that wait for values -----------------------------------------------------------------------

    def _act(
        self, ordinals: Sequence[int], known: dict[int, Predecessor], ended: dict[int, TaskRun]
    ) -> tuple[Sequence[int], list[int]]:
        """Act on those of the steps that wait for values. Returns the steps that run a task, or one for each
        item, and the steps that ended.
        """
        waiting = [each for each in sorted(ordinals) if each in self.run.plan.waiting_for_values]
        if not self._chords.queue:
            self._chords.queue = maps.as_task_run(self.tx, self.run.id, waiting[0]).queue
        now, later = waiting[: self._acts_left], waiting[self._acts_left :]
        self._acts_left -= len(now)
        self._check_later(later)
        if not now:
            return [each for each in ordinals if each not in later], []
        acted = acting.act(self.tx, self.run, now, self._loaded)
        for ordinal, paths in acted.unloaded.items():
            self._leave_pending(ordinal, paths)
        for each in acted.completed:
            number = each.task_run.ordinal
            known[number], ended[number] = (
                as_predecessor(self.run, each.task_run, each.selected_next),
                each.task_run,
            )
        known |= dict.fromkeys(acted.skipped, PASSED_OVER)
        known |= dict.fromkeys(acted.after_failure, Predecessor("skipped", follows_failure=True))
        done = [each.task_run.ordinal for each in acted.completed]
        done += acted.skipped + acted.after_failure
        done += self._fail_acted(acted.failed, known, ended)
        at_once = [each for each in ordinals if each not in waiting]
        return ([] if self.ended else at_once + acted.go_on), done

    def _fail_acted(
        self,
        failed: Sequence[tuple[TaskRun, Failure]],
        known: dict[int, Predecessor],
        ended: dict[int, TaskRun],
    ) -> list[int]:
        # Nothing is called, so there is no retry whose delay could be too long.
        final = self.fail(failed, max_retry_delay_ms=None).final if failed else []
        self._end_by_failure(final)
        for each in final:
            known[each.ordinal], ended[each.ordinal] = as_predecessor(self.run, each, None), each
        return [each.ordinal for each in final]

    def _check_later(self, ordinals: Sequence[int]) -> None:
        """Leave steps to checks of their joins: this transaction has acted on enough of them."""
        self.tx.send(*(JoinCheck(self.run.id, each, self._chords.queue) for each in ordinals))

    # --- maps ---------------------------------------------------------------------------------------------

    def _lay_out(self, ordinal: int) -> None:
        try:
            items = maps.lay_out(self.tx, self.run, ordinal, self._loaded)
        except NotLoaded as error:
            self._leave_pending(ordinal, error.paths)
            return
        except (AttemptFailed, InvalidInput, NotFound) as error:
            self._fail_map(ordinal, failure_of(error))
            return
        if items is None:
            return
        if not items:
            self._complete_map(ordinal, count=0)
            return
        if self.run.plan[ordinal].step.decides is not None:
            maps.begin_next(self.tx, self.run, ordinal)
            return
        self._chords.open_map(ordinal, items)
        self._releases.items(items)

    def _leave_pending(self, ordinal: int, paths: Sequence[str]) -> None:
        """Storage must not be read with rows locked: the check of the step's join reads it (joins.py)."""
        if ordinal == self._loads_for:
            self.unloaded = paths
        else:
            queue = maps.as_task_run(self.tx, self.run.id, ordinal).queue
            self.tx.send(JoinCheck(self.run.id, ordinal, queue))

    def _check_map(self, ordinal: int, after: int = 0) -> None:
        match maps.lock(self.tx, self.run.id, ordinal):
            case TaskStatus.PENDING:
                # The chord of a gathered join was sized when the map and its siblings became ready.
                self.decide([ordinal], opens_chords=False)
            case TaskStatus.WAITING if (ending := maps.ending(self.tx, self.run, ordinal)) is not None:
                self._finish_map(ordinal, ending)
            case TaskStatus.WAITING if self.run.plan[ordinal].step.decides is not None:
                maps.begin_next(self.tx, self.run, ordinal, after)
            case None | TaskStatus.WAITING:
                return
            case _:
                self.decide([ordinal])

    def _finish_map(self, ordinal: int, ending: maps.MapEnding) -> None:
        if ending.failure is not None:
            self._fail_map(ordinal, ending.failure)
        else:
            self._complete_map(ordinal, count=ending.count)

    def _complete_map(self, ordinal: int, *, count: int) -> None:
        finished = completing.finish_map(self.tx, self.run.id, ordinal, count=count)
        if finished is not None:
            self.settle([finished])

    def _fail_map(self, ordinal: int, failure: Failure) -> None:
        failed = (maps.as_task_run(self.tx, self.run.id, ordinal), failure)
        # A map has no attempts, so there is no retry whose delay could be too long.
        if final := self.fail([failed], max_retry_delay_ms=None).final:
            self.settle(final)

    # --- the end ------------------------------------------------------------------------------------------

    def _end(self, end: End) -> None:
        """Write the end of the run. A failure cancels its open task runs."""
        if end.failed is None:
            # A reopened run may have other open task runs; then it does not end.
            self.ended = endings.finish(self.tx, self.run)
            return
        self.ended = True
        why = f"the run failed at step {end.failed.step_id}"
        error = step_failures.error_of(end.failed, end.cause)
        early = EarlyEnd(RunStatus.FAILED, error, RUN_FAILED, why)
        self._note_freed(endings.end_early(self.tx, self.run, early) or ())

    def close(self) -> list[TaskRun]:
        """Fill the limits that this transaction touched: last, because their rows are locked last.

        Returns:
            Task runs that the claimant runs now.
        """
        self.touched.fill(self.tx)
        return self._releases.continued


def _to_run(decisions: Mapping[int, Decision]) -> list[int]:
    return [join for join, decision in decisions.items() if decision is Decision.RUN and join != END]
