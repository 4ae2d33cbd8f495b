"""Stores the outcomes of calls and lets their run go on: the turn, the heart of the engine.

A turn does these things, always in this order:

1. lock keys: the idempotency keys of the outcomes, in the order of their names;
2. fail: end the attempts that ended badly, with another attempt or a dead letter;
3. complete: store the results of the attempts that ended well, which dispatches were taken, and what the
calls
   wait for that have suspended themselves;
4. settle keys: store results in the rows of their keys, let blocked task runs step back, wake waiters;
5. settle steps: release or skip the steps behind task runs that are final now, or end the run;
6. hand over task runs that the caller will not start, or claim those that it starts next;
7. close: fill the limits of the tasks that the turn touched.

So rows are locked in this order: idempotency keys, the run (first of all task runs where the run fails fast,
last where the turn may end it), task runs, tasks with limits. Every other path that writes these rows follows
the same order; a turn that did its steps in another order would deadlock with it.
A change that needs an earlier row than those that are locked already (the keys of task runs that failed for
good, the tenant's next run slot) runs after the commit, in a transaction of its own.

Most turns are one completed step with few successors, or a few steps that meet again. They take the fast path
(fast_path.py): the same decision in one statement, which commits by itself.

Workers call `Turn.apply` after each group of calls. A report of an HTTP service does the same in the API
process (dispatch/reports.py), with nothing to hand over. The API may be the claimant of the next step of an
HTTP service (dispatch/next_steps.py); every other step gets a message.

A late or doubled report changes no row and releases nothing: the guards are in the statements.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from pipeweave.orchestrator.domain.call_outcome import CallOutcome
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import Completion, Dispatched, Postponed, Suspended, TaskRun
from pipeweave.orchestrator.engine import fast_path, idempotency, suspending
from pipeweave.orchestrator.engine.advance import Advance
from pipeweave.orchestrator.engine.chords import Counting
from pipeweave.orchestrator.engine.hand_over import Unstarted, hand_over
from pipeweave.orchestrator.engine.release import Claimant
from pipeweave.orchestrator.state import completing, dispatches
from pipeweave.orchestrator.store.database import Database, Transaction


@dataclass(frozen=True)
class Turn:
    """Outcomes of calls of one run, and the worker that goes on with the run.

    Args:
        run: the run of all outcomes.
        outcomes: how the calls ended; each task run is running and was claimed by the caller.
        queue: where messages about joins go.
        max_retry_delay_ms: no retry waits for longer (ms); None for no such limit.
        claimant: the worker process that goes on with released steps; None sends a message for each of them.
        counting: whether the message of these calls is a part of the chords of its joins.
        unstarted: task runs that the caller gives back because it must stop; then it claims no others.
        worker: the name that claimed `unstarted`.
        claim_next: claims more task runs for the caller, such as the next ones that its message names.
        chosen: successors of the outcome whose conditions the caller has found to be true; see
            `engine/conditions.py`.
    """

    run: RunHeader
    outcomes: Sequence[CallOutcome]
    queue: str
    max_retry_delay_ms: int | None = field(kw_only=True)
    claimant: Claimant | None = None
    counting: Counting = Counting.COUNTED
    unstarted: Unstarted | None = None
    worker: str = ""
    claim_next: Callable[[Transaction], list[TaskRun]] | None = None
    chosen: Collection[int] = ()

    def apply(self, database: Database) -> list[TaskRun]:
        """Do the turn; repeat it when PostgreSQL rolled it back to end a deadlock.

        Returns:
            Task runs that the caller has claimed now and must start.

        Raises:
            Unavailable: PostgreSQL did not answer; the turn may be durable all the same.
        """
        if self._is_dispatches_only:
            database.run(self._note_dispatches, is_one=False)
            continued: list[TaskRun] = []
        elif (completions := self.fast_completions) and self.claimant is not None:
            claimant = self.claimant
            continued = database.run(
                lambda tx: fast_path.complete_and_go_on(tx, self.run, completions, claimant), is_one=False
            )
        else:
            return database.run(self.store)
        if continued or self.claim_next is None:
            return continued
        # Separate from the statement above, which is durable by now: its messages must have left before a
        # deadlock repeats the claim.
        return database.run(self.claim_next, is_one=False)

    def report(self, database: Database) -> tuple[list[TaskRun], bool | None]:
        """Do the turn of one report. Only the fast path claims a step for the claimant.

        Returns:
            The task runs that the claimant has claimed; and whether the attempt ended, or suspended itself,
            by the report, None when only its row tells.

        Raises:
            Unavailable: as `apply`.
        """
        if len(completions := self.fast_completions) == 1:
            return database.run(
                lambda tx: fast_path.complete_reported(
                    tx, self.run, completions[0], self.queue, self.claimant
                ),
                is_one=False,
            )
        alone = replace(self, claimant=None)
        return [], database.run(lambda tx: alone.end_attempts(tx) > 0)

    @property
    def _is_dispatches_only(self) -> bool:
        """Whether one statement stores the turn: nothing ended, and nothing is given back."""
        for each in self.outcomes:
            if not isinstance(each, Dispatched):
                return False
        return self.unstarted is None

    def _note_dispatches(self, tx: Transaction) -> None:
        dispatches.taken(tx, [each for each in self.outcomes if isinstance(each, Dispatched)])

    @cached_property
    def fast_completions(self) -> Sequence[Completion]:
        """The completions that the fast path takes together, if the turn is nothing else."""
        completions = [each for each in self.outcomes if isinstance(each, Completion)]
        if self.unstarted is not None or not completions or len(completions) < len(self.outcomes):
            return ()
        return completions if fast_path.applies_to_all(self.run, completions, self.chosen) else ()

    def store(self, tx: Transaction) -> list[TaskRun]:
        """Do the turn in the caller's transaction, without the fast path. Returns the same as `apply`."""
        return self._store(tx)[0]

    def end_attempts(self, tx: Transaction) -> int:
        """Do the turn in the caller's transaction. Returns how many attempts ended or suspended themselves by
        it: a fenced one had ended before.
        """
        return self._store(tx)[1]

    def _store(self, tx: Transaction) -> tuple[list[TaskRun], int]:
        completions = [each for each in self.outcomes if isinstance(each, Completion)]
        claimant = self._claimant_of_all()
        advance = Advance(tx, self.run, claimant, queue=self.queue, counting=self.counting)
        free_keys = idempotency.lock(tx, self.run.tenant, self.outcomes)
        failures = [each for each in self.outcomes if isinstance(each, tuple)]
        ended = advance.fail(failures, max_retry_delay_ms=self.max_retry_delay_ms)
        final = ended.final + completing.complete(tx, completions, run=self.run)
        self._note_dispatches(tx)
        suspended = self._suspend(tx)
        idempotency.settle(tx, self.run, self.outcomes, final, free_keys, advance.touched)
        advance.settle(final, _selected_next(completions))
        advance.postpone([each for each in self.outcomes if isinstance(each, Postponed)])
        claimed = self._hand_over_or_claim(tx)
        number = len(final) + len(ended.retried) + len(ended.handled) + len(suspended)
        return advance.close() + claimed, number

    def _suspend(self, tx: Transaction) -> list[TaskRun]:
        suspended = [each for each in self.outcomes if isinstance(each, Suspended)]
        if not suspended:
            return []
        return suspending.suspend(tx, self.run, suspended, max_retry_delay_ms=self.max_retry_delay_ms)

    def _claimant_of_all(self) -> Claimant | None:
        """The claimant for all outcomes: it continues as many steps as it has finished."""
        return None if self.claimant is None else replace(self.claimant, room=len(self.outcomes))

    def _hand_over_or_claim(self, tx: Transaction) -> list[TaskRun]:
        if self.unstarted is not None:
            hand_over(tx, self.run.id, self.unstarted, worker=self.worker)
            return []
        return [] if self.claim_next is None else self.claim_next(tx)


def _selected_next(completions: Sequence[Completion]) -> dict[int, tuple[str, ...]]:
    return {c.task_run.ordinal: c.selected_next for c in completions if c.selected_next is not None}
