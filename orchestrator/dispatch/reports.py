"""Takes the reports of HTTP services: heartbeats, progress, results and failures of dispatched attempts.

The dispatch id of a report names one attempt and proves that the sender got its dispatch. A report about an
attempt that is over changes nothing and says so. A result is stored by the engine's turn; it is durable when
the answer leaves. Storage is read before, while nothing is locked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipeweave import dispatch_ids, ids
from pipeweave.authoring import Suspend, read_literal
from pipeweave.errors import (
    AttemptFailed,
    InvalidAsyncResult,
    InvalidReport,
    NotFound,
    Unauthenticated,
)
from pipeweave.orchestrator.dispatch import next_steps, results, tokens
from pipeweave.orchestrator.dispatch.known_outputs import remember_completed
from pipeweave.orchestrator.dispatch.next_steps import NextSteps
from pipeweave.orchestrator.dispatch.report import FAILED, PENDING, Report
from pipeweave.orchestrator.dispatch.reported_attempt import ReportedAttempt, stale
from pipeweave.orchestrator.dispatch.taken_objects import TakenObjects
from pipeweave.orchestrator.domain.call_outcome import CallOutcome
from pipeweave.orchestrator.domain.failure import Failure, failure_of
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import Completion, Suspended, TaskRun
from pipeweave.orchestrator.engine.turn import Turn
from pipeweave.orchestrator.registry import task_rows
from pipeweave.orchestrator.state import asset_claims, heartbeats, run_headers
from pipeweave.orchestrator.state.rows import COLUMNS, of_row
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.values import Values
from pipeweave.settings import Settings
from pipeweave.spec import rules


@dataclass(frozen=True, slots=True)
class Reported:
    """What a report changed.

    Args:
        is_repeated: the attempt had ended like this before; nothing was changed.
        is_retrying: another attempt follows.
    """

    is_repeated: bool = False
    is_retrying: bool = False


_ROW = f"""
SELECT {COLUMNS}, t.tenant_id, t.finished_at, t.dispatched_at FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id = :id
"""


class ReportReceiver:
    """Takes reports.

    Args:
        settings: with the secret that signed the dispatch ids.
    """

    def __init__(self, database: Database, values: Values, settings: Settings) -> None:
        self.database = database
        self.values = values
        self.settings = settings

    def check(self, dispatch_id: str) -> None:
        """Check that this deployment made a dispatch id, whatever has become of its attempt.

        Raises:
            Unauthenticated: it did not.
        """
        self._read(dispatch_id)

    def tenant_of(self, dispatch_id: str) -> str:
        """The tenant whose attempt a dispatch id names.

        Raises:
            Unauthenticated: the id was not made by this deployment.
            NotFound: its run is not there any more.
        """
        with self.database.statements() as tx:
            return str(self._find(tx, dispatch_id).row.tenant_id)

    def attempt_of(self, dispatch_id: str) -> tuple[RunHeader, TaskRun]:
        """The run and the task run of an attempt that is under way.

        Raises:
            Unauthenticated, NotFound: as `tenant_of`.
            StaleReport: the attempt is over.
        """
        with self.database.statements() as tx:
            attempt = self._find(tx, dispatch_id)
            run = run_headers.load(tx, attempt.row.run_id)
        if run is None or not attempt.is_running:
            raise stale(attempt)
        return run, attempt.task_run

    def heartbeat(self, dispatch_id: str, progress: float | None, message: str | None) -> bool:
        """Store a heartbeat, with the progress (0 to 100) if there is any.

        Returns:
            Whether the attempt goes on; False when it is over, and the service should stop.

        Raises:
            Unauthenticated, NotFound: as `tenant_of`.
        """
        named = self._read(dispatch_id)
        with self.database.statements() as tx:
            if progress is None:
                is_stored = heartbeats.beat_of(tx, named.task_run_id, named.attempt)
            else:
                is_stored = heartbeats.progress_of(tx, named.task_run_id, named.attempt, progress, message)
            if not is_stored:
                self._find(tx, dispatch_id)
        return is_stored

    def end(self, dispatch_id: str, report: Report) -> Reported:
        """Store the end of an attempt, or that it goes on elsewhere; the run goes on from there.

        Raises:
            Unauthenticated, NotFound: as `tenant_of`.
            StaleReport: the attempt is over, and ended in another way or was replaced; nothing was changed.
            InvalidInput: a path leads outside of the attempt's own folder; nothing was changed.
            AttemptFailed: the result cannot be used; the attempt has failed.
            Unavailable: PostgreSQL or storage cannot be reached; nothing was changed, the report can be sent
                again.
        """
        named = self._read(dispatch_id)
        steps = next_steps.of_process(self.database, self.values, self.settings)
        known = None if steps is None else steps.open.find(named.task_run_id, named.attempt)
        if known is not None:
            attempt = ReportedAttempt(dispatch_id, named.attempt, known[1]._replace(worker=None))
            return self._end(known[0], attempt, report, steps)
        with self.database.statements() as tx:
            attempt = self._find(tx, dispatch_id)
            run = run_headers.load(tx, attempt.row.run_id)
        if run is None:
            raise NotFound(f"run of {dispatch_id[:80]!r} not found")
        if not attempt.is_running:
            return self._repeated(attempt, report)
        return self._end(run, attempt, report, steps)

    def _end(
        self, run: RunHeader, attempt: ReportedAttempt, report: Report, steps: NextSteps | None
    ) -> Reported:
        taken = self._taking(run, attempt)
        outcome = self._outcome(run, attempt, report, taken)
        is_stored = self._store(run, outcome, attempt.task_run, steps)
        if is_stored and isinstance(outcome, Completion | Suspended):
            taken.remove_originals()
            return Reported()
        if not is_stored and attempt.row is None:
            # Only now the row tells whether the attempt was over before.
            with self.database.statements() as tx:
                now = self._find(tx, attempt.dispatch_id)
            if not now.is_running and (is_stored is False or not now.has_ended_as(report)):
                return self._repeated(now, report)
        if report.status != FAILED and isinstance(outcome, tuple):
            if not is_stored and (ended := self._ended_before(attempt.dispatch_id, report)) is not None:
                return ended
            self._check_stored(attempt.dispatch_id, report)
            raise _unusable(outcome[1])
        return self._check_stored(attempt.dispatch_id, report)

    def _store(
        self, run: RunHeader, outcome: CallOutcome, task_run: TaskRun, steps: NextSteps | None
    ) -> bool | None:
        """Do the turn of a report, and go on with the step after it where this process dispatches it."""
        turn = Turn(run, [outcome], task_run.queue, max_retry_delay_ms=self.settings.max_retry_delay_ms)
        if steps is None:
            return turn.report(self.database)[1]
        completions, remembered = turn.fast_completions, steps.outputs.now
        place = steps.place(run, task_run) if completions else None
        try:
            turn = turn if place is None else replace(turn, claimant=place.claimant)
            claimed, is_stored = turn.report(self.database)
        except BaseException:
            if place is not None:
                steps.in_doubt(place, run, task_run)
            raise
        if completions and is_stored:
            remember_completed(remembered, run, completions[0])
        if place is not None:
            steps.go_on(place, run, claimed)
        steps.open.end(task_run.id, task_run.attempt)
        return is_stored

    def _check_stored(self, dispatch_id: str, report: Report) -> Reported:
        """What became of the attempt: another report may have come first."""
        with self.database.statements() as tx:
            now = self._find(tx, dispatch_id)
        if now.row.attempt > now.number:
            return Reported(is_retrying=True)
        if now.is_running or now.row.status == TaskStatus.CANCELLED:
            raise stale(now)
        return Reported()

    def _ended_before(self, dispatch_id: str, report: Report) -> Reported | None:
        """What the same report has changed that was taken at the same time: it has taken the objects away."""
        with self.database.statements() as tx:
            now = self._find(tx, dispatch_id)
        return Reported(is_repeated=True) if now.has_ended_as(report) else None

    def _repeated(self, attempt: ReportedAttempt, report: Report) -> Reported:
        if attempt.has_ended_as(report):
            return Reported(is_repeated=True)
        if attempt.row.attempt == attempt.number + 1 and report.status == FAILED:
            return Reported(is_repeated=True, is_retrying=attempt.row.finished_at is None)
        raise stale(attempt)

    def _taking(self, run: RunHeader, attempt: ReportedAttempt) -> TakenObjects:
        def beat() -> None:
            with self.database.statements() as tx:
                heartbeats.beat_of(tx, attempt.task_run.id, attempt.number)

        return TakenObjects(self.values, self.values.backends.choose(run.tenant, run.pipeline_id), beat)

    def _outcome(
        self, run: RunHeader, attempt: ReportedAttempt, report: Report, taken: TakenObjects
    ) -> CallOutcome:
        task_run = attempt.task_run
        logs = results.own_path(report.logs_path, "logsPath", attempt.dispatch_id, taken.backend)
        if report.status == FAILED:
            return task_run, results.failure(report, logs)
        reported_assets = results.assets(report.assets, attempt.dispatch_id)
        try:
            takes_pending = run.async_defaults(task_run.step_id) is not None
            if (suspend := _suspend(report, takes_pending=takes_pending)) is not None:
                return Suspended(task_run, suspend, self._assets(run, task_run, reported_assets, taken), logs)
            chosen = self._chosen(run, task_run, report.selected_next)
            kept = results.output(taken, report, attempt.dispatch_id)
            assets = self._assets(run, task_run, reported_assets, taken)
        except (AttemptFailed, NotFound) as error:
            return task_run, failure_of(error)
        return Completion(task_run, kept, chosen, task_run.idempotency_key, assets=assets, logs_path=logs)

    def _assets(
        self,
        run: RunHeader,
        task_run: TaskRun,
        reported_assets: Mapping[str, Mapping[str, Any]],
        taken: TakenObjects,
    ) -> Mapping[str, Any] | None:
        """Take the files of an attempt over, before any row names them; None for none."""
        if not reported_assets:
            return None
        assets = taken.assets(reported_assets)
        with self.database.statements() as tx:
            asset_claims.add(tx, run.tenant, task_run, [each["path"] for each in assets.values()])
        return assets

    def _chosen(
        self, run: RunHeader, task_run: TaskRun, chosen: Collection[str] | None
    ) -> tuple[str, ...] | None:
        if chosen is None:
            return None
        planned = run.plan[run.plan.ordinals[task_run.step_id]]
        successors: Collection[str] = [run.plan[each].id for each in planned.successors]
        if run.pipeline_id is None:
            # Nothing follows a standalone task. It may choose all the same, as it would in its pipeline.
            with self.database.statements() as tx:
                task = task_rows.tasks(tx, run.tenant, [task_run.task_id]).get(task_run.task_id)
            successors = () if task is None else task.allowed_next
        is_item = task_run.map_index is not None
        return rules.select_next(list(chosen), successors, step_id=planned.id, is_item=is_item)

    def _read(self, dispatch_id: str) -> dispatch_ids.DispatchedAttempt:
        named = dispatch_ids.read(tokens.secret_of(self.settings), dispatch_id)
        if named is None:
            raise Unauthenticated(
                f"{dispatch_id[:120]!r} is not a run id that this orchestrator has dispatched",
                hint="report with the runId of the dispatch, unchanged",
            )
        return named

    def _find(self, tx: Transaction, dispatch_id: str) -> ReportedAttempt:
        named = self._read(dispatch_id)
        parameters = {"run_id": ids.run_id_of(named.task_run_id), "id": named.task_run_id}
        row = tx.execute(_ROW, parameters).one_or_none()
        if row is None:
            raise NotFound(f"task run of {dispatch_id[:80]!r} not found")
        return ReportedAttempt(dispatch_id, named.attempt, of_row(row)._replace(worker=None), row)


def _suspend(report: Report, *, takes_pending: bool) -> Suspend | None:
    """What a report waits for: a pending one, or one with an output that says so."""
    if report.status == PENDING:
        suspend = read_literal({**(report.suspend or {}), "status": PENDING})
    else:
        suspend = read_literal(report.output) if takes_pending else None
    if suspend is not None and report.selected_next is not None:
        raise InvalidAsyncResult("selectedNext: an attempt that is pending cannot choose what runs next")
    return suspend


def _unusable(failure: Failure) -> InvalidReport:
    return InvalidReport(failure.message, failureCode=failure.code)
