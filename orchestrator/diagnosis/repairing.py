"""Restores the rows of a run that differ from its events: plans what events determine, and writes it once.

The events say how each row stood: statuses, attempts, workers, codes of errors, choices. They have no values:
a result that is not in its row any more, the item of a map, the input of a run are not determined, and are
left as they are. The row of a run that is lost is made anew where its input is known by its hash
(`lost_runs`), dead letters that are gone where that is asked for (`lost_letters`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.diagnosis import lost_letters, lost_runs, verify
from pipeweave.orchestrator.diagnosis.verify import Difference
from pipeweave.orchestrator.domain import replay
from pipeweave.orchestrator.domain.events import Event
from pipeweave.orchestrator.domain.failure import Outcome
from pipeweave.orchestrator.domain.replay import RebuiltRun, RebuiltTaskRun
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.stored_event import StoredEvent
from pipeweave.orchestrator.registry import TaskRow, task_rows
from pipeweave.orchestrator.runs import creation
from pipeweave.orchestrator.security import audit
from pipeweave.orchestrator.state import repairing, restoring, run_headers
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.event_log import append
from pipeweave.orchestrator.store.values import keep_inline

# After these, the next attempt is due at a time of its own.
_DUE = frozenset({"task_run.retrying", "task_run.stepped_back", "task_run.postponed"})
_OUTCOMES = frozenset(each.value for each in Outcome) | {"cancelled"}
_NULL = keep_inline(None)


@dataclass(frozen=True, slots=True)
class RunRepair:
    """What was, or would be, made as the events say.

    Args:
        restored: differences that are gone afterwards.
        left: those that events do not determine, each with the reason.
        unset: of a run whose row is made anew, what the row has not got again; empty for any other.
    """

    run_id: UUID
    restored: list[Difference] = field(default_factory=list)
    left: list[tuple[Difference, str]] = field(default_factory=list)
    unset: str = ""


def repair(
    database: Database,
    run_id: UUID,
    note: audit.Note | None,
    *,
    archived: Mapping[str, Any] | None = None,
    has_letters: bool = False,
) -> RunRepair:
    """Restore a run in one transaction, under the lock of its row; it goes on with the next tick.

    A change of the run meanwhile begins the transaction anew. If something is restored, the event
    `run.repaired` and a row of the audit say so.

    Args:
        note: the row of the audit; None only looks.
        archived: the document of the run in an archive, for a row that is lost.
        has_letters: whether dead letters that are gone are restored, too; those that were purged come back.

    Raises:
        NotFound: there is no such run, and no event tells of one.
        Conflict: its row is lost, and cannot be made; the detail names all that lacks.
    """

    def verb(tx: Transaction) -> RunRepair:
        tx.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        plan = _RowsToWrite(tx, run_id, replay.rebuild(verify.events(tx, run_id)), has_letters=has_letters)
        with _undone_unless(tx, note is not None):
            if not repairing.lock(tx, run_id):
                plan.make_run(archived)
            outcome = plan.made()
        if note is not None and outcome.restored:
            plan.write()
            append(tx, [Event(run_id, "run.repaired", data=_data_of_event(outcome, note))])
            audit.write(tx, note, {}, {"restored": len(outcome.restored), "left": len(outcome.left)})
        return outcome

    return database.run(verb)


@contextmanager
def _undone_unless(tx: Transaction, is_kept: bool) -> Iterator[None]:
    """Who only looks needs the row of a run, too, to see what else differs; afterwards it is gone again."""
    if not is_kept:
        tx.execute("SAVEPOINT looked")
    yield
    if not is_kept:
        tx.execute("ROLLBACK TO SAVEPOINT looked")


def _data_of_event(outcome: RunRepair, note: audit.Note) -> dict[str, Any]:
    ordinals = {
        0 if each.task_run_id is None else ids.ordinal_of(each.task_run_id) for each in outcome.restored
    }
    return {"differences": len(outcome.restored), "rows": len(ordinals), "by": note.actor.name}


@dataclass(slots=True)
class _RowsToWrite:
    """The rows to write, for the differences of one run."""

    tx: Transaction
    run_id: UUID
    rebuilt: RebuiltRun
    has_letters: bool = False
    unset: str = ""
    letters: list[Difference] = field(default_factory=list)
    lost: dict[int, dict[str, Any]] = field(default_factory=dict)
    task_runs: dict[int, dict[str, Any]] = field(default_factory=dict)
    attempts: list[dict[str, Any]] = field(default_factory=list)
    no_attempts: list[dict[str, Any]] = field(default_factory=list)
    sets_run: bool = False
    header: RunHeader | None = None
    tasks: Mapping[str, TaskRow] = field(default_factory=dict)

    def make_run(self, archived: Mapping[str, Any] | None) -> None:
        """Make the row of the run anew. Raises NotFound or Conflict if it cannot be made."""
        created = next(verify.events(self.tx, self.run_id), None)
        lost = lost_runs.made_again(self.tx, self.run_id, self.rebuilt, created, archived)
        lost.require_whole()
        restoring.insert_run(self.tx, lost.row)
        self.unset, self.sets_run = lost.unset, True

    def made(self) -> RunRepair:
        outcome = RunRepair(self.run_id, unset=self.unset)
        # All are read before the first is planned: both ask the same connection.
        for each in self._differences():
            why = "its events contradict each other" if self.rebuilt.faults else self._take(each)
            if why is None:
                outcome.restored.append(each)
            else:
                outcome.left.append((each, why))
        return outcome

    def _differences(self) -> list[Difference]:
        differences = list(verify.differences(self.tx, self.run_id, self.rebuilt))
        if self.unset:
            # The row of the run is new: what it says is that it was lost.
            status = None if self.rebuilt.status is None else self.rebuilt.status.value
            new = Difference(self.run_id, None, "row", verify.MISSING, status)
            kept = ("edited_params", "other_input")
            differences = [new, *(each for each in differences if each.task_run_id or each.field in kept)]
        if self.has_letters and not self.rebuilt.faults:
            self.letters = lost_letters.lost(self.tx, self.run_id, self.rebuilt)
        return [*differences, *self.letters]

    def write(self) -> None:
        if self.sets_run:
            self._write_run()
        repairing.insert_task_runs(self.tx, self.run_id, list(self.lost.values()))
        repairing.set_task_runs(self.tx, self.run_id, list(self.task_runs.values()))
        repairing.delete_attempts(self.tx, self.run_id, self.no_attempts)
        repairing.set_attempts(self.tx, self.run_id, self.attempts)
        lost_letters.write(self.tx, self.run_id, self.rebuilt, self.letters)

    def _take(self, difference: Difference) -> str | None:
        """Plan the rows for a difference; why not, if events do not determine them."""
        if difference.field == lost_letters.LETTER:
            return None
        if difference.task_run_id is None:
            return self._take_run(difference)
        ordinal = ids.ordinal_of(difference.task_run_id)
        if difference.field.startswith("attempts["):
            return self._take_attempt(ordinal, int(difference.field[len("attempts[") : -1]))
        if difference.field == "row":
            return self._take_lost(ordinal, difference)
        return self._take_task_run(ordinal)

    # --- the run ------------------------------------------------------------------------------------------

    def _take_run(self, difference: Difference) -> str | None:
        if difference.field in ("edited_params", "other_input"):
            return "the values of an edit are in the row alone"
        if self.rebuilt.status is None:
            return "no event created the run"
        self.sets_run = True
        return None

    def _write_run(self) -> None:
        run = self.rebuilt
        assert run.status is not None, "refused before"
        repairing.set_run(
            self.tx,
            self.run_id,
            status=run.status.value,
            has_started=run.has_started,
            code=run.error_code,
            message=_message(run.moved),
            began=None if run.began is None else run.began.at,
            moved=None if run.moved is None else run.moved.at,
        )

    # --- task runs ----------------------------------------------------------------------------------------

    def _take_lost(self, ordinal: int, difference: Difference) -> str | None:
        rebuilt = self.rebuilt.task_runs.get(ordinal)
        if rebuilt is None:
            return "no event made the task run"
        if rebuilt.output_hash not in (None, _NULL.hash):
            return "its result was in the row alone"
        run = self._header()
        if run is None or run.pipeline_id is None or ordinal > len(run.plan.steps):
            return "what it was called with was in the row alone"
        if run.plan[ordinal].step.computes_labels and (rebuilt.was_released or rebuilt.attempt > 1):
            return "which labels it requires was in the row alone"
        try:
            self.lost[ordinal] = creation.unreleased_row(run, ordinal, self.tasks)
        except KeyError:
            return "its task is not registered any more"
        self.task_runs[ordinal] = _row(difference.task_run_id, rebuilt)
        return None

    def _header(self) -> RunHeader | None:
        """The run with its plan, and the tasks of its steps; read once."""
        if self.header is None and (run := run_headers.load(self.tx, self.run_id)) is not None:
            self.header = run
            self.tasks = task_rows.tasks(self.tx, run.tenant, {each.step.task for each in run.plan.steps})
        return self.header

    def _take_task_run(self, ordinal: int) -> str | None:
        if ordinal not in self.task_runs:
            rebuilt = self.rebuilt.task_runs[ordinal]
            task_run_id = ids.task_run_id(self.run_id, ordinal)
            if rebuilt.output_hash is not None and not _has_result(self.tx, task_run_id, rebuilt.output_hash):
                return "its result is not in the row any more"
            self.task_runs[ordinal] = _row(task_run_id, rebuilt)
        return None

    # --- attempts -----------------------------------------------------------------------------------------

    def _take_attempt(self, ordinal: int, number: int) -> str | None:
        rebuilt = self.rebuilt.attempts.get((ordinal, number))
        key = {"id": ids.task_run_id(self.run_id, ordinal), "number": number}
        if rebuilt is None:
            self.no_attempts.append(key)
            return None
        if rebuilt.outcome not in _OUTCOMES or rebuilt.ended is None:
            return "its event does not say how it ended"
        row = {"status": rebuilt.outcome, "worker": rebuilt.worker, "error_code": rebuilt.error_code}
        self.attempts.append({**key, **row, "message": _message(rebuilt.ended), "ended_at": rebuilt.ended.at})
        return None


def _row(task_run_id: UUID | None, rebuilt: RebuiltTaskRun) -> dict[str, Any]:
    moved = rebuilt.moved
    is_null = rebuilt.output_hash == _NULL.hash
    return {
        "id": task_run_id,
        "status": rebuilt.status.value,
        "attempt": rebuilt.attempt,
        "was_released": rebuilt.was_released,
        "worker": rebuilt.worker,
        "error_code": rebuilt.error_code,
        "message": _message(moved),
        "selected_next": rebuilt.selected_next,
        "map_first": rebuilt.map_first,
        "map_count": rebuilt.map_count,
        "output_hash": rebuilt.output_hash,
        "is_null": is_null,
        "output_size": _NULL.size if is_null else None,
        "moved_at": moved and moved.at,
        "is_due": rebuilt.status is TaskStatus.PENDING and moved is not None and moved.type in _DUE,
    }


_RESULT = "SELECT t.output, t.output_path FROM task_runs AS t WHERE t.run_id = :run_id AND t.id = :id"


def _has_result(tx: Transaction, task_run_id: UUID, digest: str) -> bool:
    """Whether the row has the result of this hash; a path in storage ends with the hash."""
    key = {"run_id": ids.run_id_of(task_run_id), "id": task_run_id}
    row = tx.execute(_RESULT, key).one()
    if row.output_path is not None:
        return bool(row.output_path.endswith(digest))
    return keep_inline(row.output).hash == digest


def _message(event: StoredEvent | None) -> str:
    error = None if event is None else event.data.get("error")
    return error if isinstance(error, str) else "the error is not in the event"
