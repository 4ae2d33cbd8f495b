"""Records the statements that functions compose, by calling those functions with a transaction that sends
nothing.

Each function that composes a statement has a line in CALLS. Every call that it makes is answered with one row
of ones, or with no rows where it asks for all of them, so that it comes as far as its own statement.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from types import FrameType
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.deadletters.filters import LetterFilter
from pipeweave.orchestrator.deployment import downgrade
from pipeweave.orchestrator.deployment.audited_objects import AUDITED
from pipeweave.orchestrator.deployment.sealed_columns import SEALED
from pipeweave.orchestrator.domain.events import Event
from pipeweave.orchestrator.domain.months import Month
from pipeweave.orchestrator.domain.states import RunStatus
from pipeweave.orchestrator.engine import maps
from pipeweave.orchestrator.export import chosen
from pipeweave.orchestrator.kept.run_filter import RunFilter
from pipeweave.orchestrator.operations import (
    BulkAction,
    Selection,
    bulk_changes,
    choosing,
    progress,
    redrives,
)
from pipeweave.orchestrator.queueing import maintenance_mode, priorities
from pipeweave.orchestrator.reading import (
    audit_list,
    count_of_runs,
    queue,
    registry,
    schedule_list,
    searching,
    service_list,
    trigger_list,
    wait_list,
)
from pipeweave.orchestrator.reading import dead_letters as letter_lists
from pipeweave.orchestrator.reading import list_of_runs as run_lists
from pipeweave.orchestrator.reading import task_runs as task_run_lists
from pipeweave.orchestrator.recovery import chores, due_attempts, look, tick
from pipeweave.orchestrator.registry import unknown_names, worker_processes
from pipeweave.orchestrator.retention import (
    archive,
    archive_format,
    default_partition,
    drop_months,
    expiry,
    month_status,
    partitions,
    tenant_deletion,
    tenant_export,
    tenant_objects,
)
from pipeweave.orchestrator.retention.archive_format import HISTORY_TABLES
from pipeweave.orchestrator.retention.policy import Policy
from pipeweave.orchestrator.runs import bulk
from pipeweave.orchestrator.security import rewrapping
from pipeweave.orchestrator.security.object_state import state_of
from pipeweave.orchestrator.starts import fires
from pipeweave.orchestrator.starts.enqueued.starting import has_due
from pipeweave.orchestrator.starts.hooks import repeated_ends
from pipeweave.orchestrator.state import cancelling, completing, releasing, run_transitions
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.keyset import PageRequest, cursor_of
from pipeweave.orchestrator.store.rows import Result
from pipeweave.orchestrator.waits import due as due_waits
from sql_pages.statements import ROOT, Module, Statement, composed_by, constants, sentence, split

NOW = datetime(2001, 1, 15, tzinfo=UTC)
# Statements about a month's partitions are shown for this month.
MONTH = Month(2001, 1)
_TICK = look.Question(chores.CHORES, None, tick.LEASE, may_be_over=True)
_GATES = {each.only_while for each in chores.CHORES} - {None}
RUN = UUID(int=1)
TENANT = "default"
PERSON = wait_list.Person("ann", ("finance",))
ERROR = {"code": "STEP_FAILED", "message": "step a failed"}
ENDED = Event(RUN, "run.failed")


class _Ones:
    """A row whose columns are all 1."""

    def __getattr__(self, name: str) -> int | None:
        # The runs of these calls belong to no other run.
        return None if name == "parent_task_run_id" else 1

    def __getitem__(self, _: slice) -> tuple[int, ...]:
        return ()


class Answer(Result):
    """One row of ones and a scalar, or no rows where all are wanted."""

    def __init__(self, scalar: Any) -> None:
        self._scalar = scalar

    @property
    def rowcount(self) -> int:
        return 0

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def first(self) -> Any | None:
        return _Ones()

    def one(self) -> Any:
        return _Ones()

    def one_or_none(self) -> Any | None:
        return None

    def scalars(self) -> list[Any]:
        return []

    def scalar_one_or_none(self) -> Any | None:
        return self._scalar

    def scalar_one(self) -> Any:
        return self._scalar


class Recorder(Transaction):
    """A transaction that sends nothing, and keeps what some functions would have sent.

    Args:
        composers: those functions, `state.run_transitions._move`.
        scalar: the answer to a statement that gives one value.
    """

    def __init__(self, composers: set[str], scalar: Any) -> None:
        self.composers = composers
        self.scalar = scalar
        # Name, sender and text of each statement.
        self.sent: list[tuple[str, str, str]] = []
        self.now = NOW

    def hold(self) -> None:
        pass

    def catch_up(self) -> None:
        pass

    def go_on_after(self, moment: datetime) -> None:
        pass

    def execute(
        self, statement: str, parameters: Mapping[str, Any] | None = None, *, lock: str | None = None
    ) -> Result:
        sender, *callers = _callers(sys._getframe(1))
        if sender in self.composers:
            # A verb that has its statement composed elsewhere gives it the name.
            verb = next((each for each in callers if not each.rpartition(".")[2].startswith("_")), sender)
            name = sender if _is_verb(sender) else verb
            self.sent += [(name, sender, text) for text in (lock, statement) if text is not None]
        return Answer(self.scalar)

    def announce(self, fact: Any) -> None:
        pass

    def after_commit(self, action: Any) -> None:
        pass


def _callers(frame: FrameType | None) -> Iterator[str]:
    """The functions of the orchestrator that are under way, innermost first."""
    while frame is not None and not frame.f_globals["__name__"].startswith(__package__ or "?"):
        module, function = frame.f_globals["__name__"], frame.f_code.co_qualname
        if module.startswith(ROOT) and not frame.f_code.co_name.startswith("<"):
            yield f"{module}.{function}".removeprefix(ROOT)
        frame = frame.f_back


def _is_verb(function: str) -> bool:
    return not function.rpartition(".")[2].startswith("_") and function != "state.task_transitions.move"


class RecordingDatabase(Database):
    """Every transaction of this database is the same recorder."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    @contextmanager
    def _begin(self, *, is_one: bool) -> Iterator[Transaction]:
        yield self._recorder


PAGE = PageRequest()
BEHIND = {
    "runs": PageRequest(cursor=cursor_of("runs", RUN)),
    "letters": PageRequest(cursor=cursor_of("dead-letters", RUN)),
    "redrives": PageRequest(cursor=cursor_of("redrives", RUN)),
    "items": PageRequest(cursor=cursor_of("queue", 1, RUN)),
    "task runs": PageRequest(cursor=cursor_of("task-runs", RUN)),
}
FULL = LetterFilter("a", "b", "C", "d", NOW, NOW)
LETTERS = LetterFilter()
OF_RUN = LetterFilter(pipeline_run_id=ids.show(ids.RUN, RUN))
KINDS = (bulk_changes.TABLE, redrives.TABLE)
SEVERAL = RunFilter(("failed", "partial"), ("a", "b"))


def _look(tx: Transaction, action: BulkAction, selection: Selection) -> object:
    return choosing.look(tx, TENANT, action, selection, RUN, None)


# Which of the texts of a function a call gives (nothing where there is only one), and the call.
Calls = list[tuple[str, Callable[[Transaction, Database], object]]]
CALLS: Calls = [
    # state
    ("completed", lambda tx, _: run_transitions._finish(tx, RUN, RunStatus.COMPLETED)),
    ("partial, with an error", lambda tx, _: run_transitions._finish(tx, RUN, RunStatus.PARTIAL, ERROR)),
    ("failed", lambda tx, _: run_transitions.end_early(tx, RUN, RunStatus.FAILED, ERROR)),
    ("cancelled", lambda tx, _: run_transitions.end_early(tx, RUN, RunStatus.CANCELLED, ERROR)),
    ("", lambda tx, _: releasing.release(tx, RUN, [1])),
    ("continued here", lambda tx, _: releasing.release(tx, RUN, [], continued=[1], worker="w", queues=["q"])),
    ("", lambda tx, _: cancelling.skip(tx, RUN, [1])),
    ("", lambda tx, _: cancelling.cancel_all(tx, RUN, code="CODE", message="message", end=ENDED)),
    ("", lambda tx, _: cancelling.cancel_tasks(tx, RUN, ["a"], code="C", message="m")),
    ("", lambda tx, _: completing.lay_out(tx, RUN, 1, first=2, count=3)),
    ("", lambda tx, _: completing.finish_map(tx, RUN, 1, count=3)),
    # registry
    ("of pipelines", lambda tx, _: unknown_names.names(tx, TENANT, "pipeline")),
    ("of tasks", lambda tx, _: unknown_names.names(tx, TENANT, "task")),
    ("of services", lambda tx, _: unknown_names.names(tx, TENANT, "service")),
    ("of schedules", lambda tx, _: unknown_names.names(tx, TENANT, "schedule")),
    ("of triggers", lambda tx, _: unknown_names.names(tx, TENANT, "trigger")),
    ("of bundles", lambda tx, _: unknown_names.names(tx, TENANT, "bundle")),
    ("of pipelines", lambda tx, _: unknown_names.require(tx, TENANT, "pipeline", "a")),
    ("of tasks", lambda tx, _: unknown_names.require(tx, TENANT, "task", "a")),
    ("of services", lambda tx, _: unknown_names.require(tx, TENANT, "service", "a")),
    # queueing and engine
    ("", lambda tx, _: maintenance_mode.request(tx)),
    ("", lambda tx, _: maintenance_mode.enter_if_drained(tx)),
    ("", lambda tx, _: maintenance_mode.leave(tx)),
    ("", lambda tx, _: maps._parent(tx, RUN, 1)),
    ("", lambda tx, _: maps.lock(tx, RUN, 1)),
    # hooks
    ("of hooks", lambda tx, _: fires.write(tx, "hook_fires", [{}])),
    ("of triggers", lambda tx, _: fires.write(tx, "event_fires", [{}])),
    ("of hooks", lambda tx, _: fires.end(tx, "hook_fires", RUN, (), None)),
    ("of triggers", lambda tx, _: fires.end(tx, "event_fires", RUN, (), None)),
    ("of hooks", lambda tx, _: repeated_ends.settle(tx, "hook_fires")),
    ("of triggers", lambda tx, _: repeated_ends.settle(tx, "event_fires")),
    # dead letters
    ("all open", lambda tx, _: dead_letters.discard_matching(tx, TENANT, LETTERS)),
    ("every filter", lambda tx, _: dead_letters.discard_matching(tx, TENANT, FULL)),
    ("", lambda tx, _: dead_letters.purge(tx, TENANT, NOW)),
    ("all open", lambda tx, _: redrives.create(tx, TENANT, LETTERS)),
    ("every filter", lambda tx, _: redrives.create(tx, TENANT, FULL)),
    ("all open", lambda tx, _: dead_letters.find_all_open(tx, TENANT, LETTERS, before=RUN, most=1)),
    ("of a run", lambda tx, _: dead_letters.find_all_open(tx, TENANT, OF_RUN, before=RUN, most=1)),
    *((kind.noun, lambda _, db, kind=kind: progress.under_way(db, kind, [], 5)) for kind in KINDS),
    *((kind.noun, lambda tx, _, kind=kind: progress.record(tx, kind, {})) for kind in KINDS),
    *((kind.noun, lambda tx, _, kind=kind: progress.cancel(tx, kind, TENANT, RUN)) for kind in KINDS),
    # reading
    ("the first page", lambda tx, _: letter_lists.dead_letter_list(tx, TENANT, PAGE, LETTERS)),
    ("every filter", lambda tx, _: letter_lists.dead_letter_list(tx, TENANT, BEHIND["letters"], FULL)),
    (
        "by the beginning of an id",
        lambda tx, _: letter_lists.dead_letter_list(tx, TENANT, PAGE, LETTERS, status="all", id_prefix="01"),
    ),
    ("all open", lambda tx, _: letter_lists.dead_letter_groups(tx, TENANT, 10, LETTERS)),
    ("", lambda tx, _: letter_lists.redrive(tx, TENANT, RUN)),
    ("the first page", lambda tx, _: letter_lists.redrive_list(tx, TENANT, PAGE)),
    ("a later page", lambda tx, _: letter_lists.redrive_list(tx, TENANT, BEHIND["redrives"])),
    ("by the beginning of an id", lambda tx, _: letter_lists.redrive_list(tx, TENANT, PAGE, id_prefix="01")),
    ("the first page", lambda tx, _: queue.queue_items(tx, TENANT, PAGE)),
    (
        "every filter",
        lambda tx, _: queue.queue_items(tx, TENANT, BEHIND["items"], status="queued", task_id="a", queue="a"),
    ),
    ("the first page", lambda tx, _: wait_list.wait_list(tx, TENANT, PAGE, wait_list.WaitFilter(), PERSON)),
    (
        "every filter",
        lambda tx, _: wait_list.wait_list(
            tx,
            TENANT,
            PageRequest(cursor=cursor_of("waits", 0, RUN)),
            wait_list.WaitFilter("approval", "a", is_mine=True, older_than=timedelta(days=1)),
            PERSON,
        ),
    ),
    ("the first page", lambda tx, _: registry.pipeline_list(tx, TENANT, PAGE)),
    ("the first page", lambda tx, _: service_list.services(tx, TENANT, PAGE)),
    ("the first page", lambda tx, _: schedule_list.schedules(tx, TENANT, PAGE)),
    ("the first page", lambda tx, _: trigger_list.triggers(tx, TENANT, PAGE)),
    ("the first page", lambda tx, _: registry.tasks(tx, TENANT, PAGE)),
    ("the first page", lambda tx, _: audit_list.audit(tx, [TENANT], PAGE)),
    (
        "of an export",
        lambda tx, _: audit_list.audit_after(tx, [TENANT], audit_list.AuditFilter(), RUN, 1000),
    ),
    (
        "filtered",
        lambda tx, _: audit_list.audit(
            tx, None, PAGE, audit_list.AuditFilter("alice", "tasks.pause", "resize", NOW, NOW)
        ),
    ),
    *((kind, lambda tx, _, each=each: state_of(tx, each, TENANT, "a")) for kind, each in AUDITED.items()),
    *(
        (f"{kind} by id", lambda tx, _, each=each: state_of(tx, each, TENANT, ids.show(each.prefix, RUN)))
        for kind, each in AUDITED.items()
        if each.by_id
    ),
    ("the first page", lambda tx, _: run_lists.run_list(tx, TENANT, PAGE)),
    (
        "every filter",
        lambda tx, _: run_lists.run_list(
            tx,
            TENANT,
            BEHIND["runs"],
            RunFilter(("failed",), ("a",), NOW, NOW),
        ),
    ),
    ("of several statuses", lambda tx, _: run_lists.run_list(tx, TENANT, PAGE, SEVERAL)),
    (
        "by the beginning of an id",
        lambda tx, _: run_lists.run_list(tx, TENANT, PAGE, RunFilter(id_prefix="01")),
    ),
    ("", lambda tx, _: count_of_runs.run_counts(tx, TENANT, RunFilter(pipeline_id=("p",)))),
    ("", lambda tx, _: run_lists._next_ids(tx, TENANT, RunFilter(), None)),
    ("the first page", lambda tx, _: task_run_lists.of_run(tx, RUN, PAGE)),
    (
        "every filter",
        lambda tx, _: task_run_lists.of_run(tx, RUN, BEHIND["task runs"], status="failed", step_id="a"),
    ),
    ("of this id", lambda tx, _: searching.search(tx, TENANT, "01jd0000")),
    ("of this name", lambda tx, _: searching.search(tx, TENANT, "nightly")),
    # registry
    ("of a worker process", lambda tx, _: worker_processes.beat(tx, "w@host", also=priorities.IS_MIXED)),
    # recovery
    ("", lambda tx, _: look._begin(tx, _TICK, look.compose(_TICK.chores, frozenset()), "holder")),
    ("behind all gates", lambda tx, _: look._look(tx, _TICK, look._conditions(_TICK.chores, _GATES))),
    # starts
    (
        "of enqueued runs, attempts and waits",
        lambda tx, _: has_due(tx, due_attempts.DUE_IN_S, due_waits.MAY_BE_LOOKED_AT, due_waits.MAY_BE_LOADED),
    ),
    # runs
    ("to pause", lambda tx, _: bulk._next_runs(tx, bulk.Action.PAUSE, {})),
    ("to resume", lambda tx, _: bulk._next_runs(tx, bulk.Action.RESUME, {})),
    ("to cancel", lambda tx, _: bulk._next_runs(tx, bulk.Action.CANCEL, {})),
    # bulk changes
    ("cancel", lambda tx, _: _look(tx, BulkAction.CANCEL, Selection())),
    ("rerun", lambda tx, _: _look(tx, BulkAction.RERUN, Selection())),
    ("rerun of some pipelines", lambda tx, _: _look(tx, BulkAction.RERUN, Selection(SEVERAL))),
    ("retry", lambda tx, _: _look(tx, BulkAction.RETRY, Selection())),
    ("pause of named runs", lambda tx, _: _look(tx, BulkAction.PAUSE, Selection(ids=(RUN,)))),
    ("resume", lambda tx, _: _look(tx, BulkAction.RESUME, Selection())),
    # retention
    ("", lambda tx, _: archive.count_rows(tx, MONTH)),
    ("", lambda tx, _: downgrade._rows(tx, "waits")),
    ("", lambda tx, _: month_status.count_rows(tx, month_status.MonthOnDisk(MONTH, {"runs": 0}))),
    ("", lambda tx, _: archive._has_run(tx, MONTH, RUN)),
    ("", lambda tx, _: archive_format._batch_end(tx, MONTH, RUN)),
    ("", lambda tx, _: archive_format._RowStream(tx, HISTORY_TABLES[0], MONTH, RUN, RUN)),
    ("", lambda tx, _: default_partition._count(tx, "runs", MONTH, 1)),
    ("", lambda tx, _: default_partition.misplaced_months(tx, ["runs"])),
    ("", lambda tx, _: default_partition.lock_tables(tx, ["runs"])),
    ("", lambda tx, _: default_partition.move_rows(tx, "runs", MONTH, partitions.bounds_of(MONTH), "")),
    ("", lambda _, database: drop_months._detach_from(database, "task_runs", MONTH)),
    ("", lambda tx, _: drop_months._drop_tables(tx, MONTH)),
    ("", lambda _, database: expiry.count_expired(database, Policy())),
    *(
        (each.table.replace("_", " "), lambda tx, _, each=each: expiry._delete(tx, each, 1))
        for each in expiry.expired(NOW, Policy())
        if each.table in ("dead_letters", "idempotency_claims", "workers", "redrives", "asset_claims")
    ),
    ("", lambda tx, _: month_status.active_runs(tx, MONTH)),
    ("", lambda tx, _: partitions.is_attached(tx, "runs")),
    ("", lambda tx, _: tenant_deletion._delete_of_runs(tx, "events", [RUN])),
    ("", lambda _, database: tenant_deletion._delete_rest(database, "a tenant")),
    ("of a tenant", lambda tx, _: tenant_export._declare(tx, "pipelines", TENANT, ())),
    ("of runs", lambda tx, _: tenant_export._declare(tx, "events", TENANT, ())),
    ("with sealed columns", lambda tx, _: tenant_export._declare(tx, "triggers", TENANT, ("secret",))),
    ("objects", lambda tx, _: tenant_export._declare(tx, tenant_objects.OBJECTS, TENANT, ())),
    # security
    ("", lambda tx, _: rewrapping.count_old(tx, "key", SEALED[:1])),
    ("", lambda tx, _: rewrapping._old_rows(tx, SEALED[0], "1:", [], 1)),
    ("", lambda tx, _: rewrapping._store(tx, SEALED[0], ["a", "b"], "1:")),
    # export
    ("by pipeline", lambda tx, _: chosen._of_each(tx, chosen._OF_PIPELINE, ("a", "b"), {})),
    ("by status", lambda tx, _: chosen._of_each(tx, chosen._OF_STATUS, ("failed", "partial"), {})),
]
# Calls that come to their statement where there is nothing yet.
CALLS_OF_NOTHING: Calls = [
    ("", lambda tx, _: partitions._create(tx, "runs", MONTH.table("runs"), partitions.bounds_of(MONTH))),
]


def composed(found: list[Module]) -> list[Statement]:
    """The statements that functions compose, as CALLS brings them about.

    Raises:
        LookupError: a function composes a statement, and no call brings it about.
    """
    by_name = {module.name: module for module in found}
    composers = composed_by(found)
    statements: dict[tuple[str, str], Statement] = {}
    have_one_text: set[str] = set()
    known = {statement.sql for statement in constants(found)}
    for variant, calls in _recorded(composers):
        for name, sender, text in calls:
            if text not in known and name not in have_one_text:
                does = sentence(*split(by_name, name))
                statement = Statement(name, text, (sender,), does, variant=variant)
                statements.setdefault((name, text), statement)
        have_one_text |= {name for name, _, _ in calls if not variant}
    missed = composers - {sender for statement in statements.values() for sender in statement.senders}
    if missed:
        raise LookupError(f"add a call that makes these functions send: {', '.join(sorted(missed))}")
    return list(statements.values())


def _recorded(composers: set[str]) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """The variant of each call; name, sender and text of the statements that it sends."""
    for calls, scalar in ((CALLS, RUN), (CALLS_OF_NOTHING, None)):
        for variant, call in calls:
            recorder = Recorder(composers, scalar)
            with suppress(PipeWeaveError):
                call(recorder, RecordingDatabase(recorder))
            yield variant, recorder.sent
