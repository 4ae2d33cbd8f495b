"""Lets a task run wait for the run that takes care of its error, and reads such errors.

The attempt has failed for good: its record is written, and its error is in the row. But the task run waits,
so nothing behind it is decided, and no dead letter is written. A waiting task run with an error code is one
of these; no other has one. It holds no slot of its task's limit and no idempotency key any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from pipeweave import error_kinds, ids
from pipeweave.orchestrator.domain.facts import WaitBegan
from pipeweave.orchestrator.domain.failure import Failure, Outcome
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.domain.waits import NEVER, Wait
from pipeweave.orchestrator.state.ended_attempts import ENDED, OF_THE_ATTEMPT, archived, ended_row
from pipeweave.orchestrator.state.named_rows import NAMED, by_key
from pipeweave.orchestrator.state.rows import read
from pipeweave.orchestrator.state.task_transitions import Move, MoveEvent
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import ITEMS


def is_handled(row: Any) -> bool:
    """Whether the error of a row with `status` and `error_code` is being taken care of."""
    return row.status == TaskStatus.WAITING and row.error_code is not None


def rule_for(run: RunHeader, task_run: TaskRun, failure: Failure) -> str | None:
    """The name of the rule that takes care of a failure after which no attempt follows; None if none does.

    Failed items are taken care of with their map.
    """
    plan = run.plan
    if not plan.has_error_rules or failure.follows_rule or task_run.kind in ITEMS:
        return None
    error = error_kinds.as_seen(task_run.step_id, failure.code, failure.to_json(), task_run.attempt)
    return plan.rule_for(task_run.step_id, error)


def row_of(tx: Transaction, task_run: TaskRun, row: Any, failure: Failure, rule: str) -> dict[str, Any]:
    """What `begin` takes for one task run.

    Args:
        row: of its task run, as `attempts.end` has locked it.
        rule: its name.
    """
    child = tx.new_id()
    data = {
        "run": str(child),
        "round": 0,
        "try": 1,
        "rule": rule,
        "outcome": failure.outcome.value,
        "isDead": failure.is_dead,
    }
    return ended_row(task_run, row, failure) | {"data": data, "child": ids.show(ids.RUN, child)}


# A step that the engine decides, or a map, may wait already; its wait is another one from now on.
_MOVED = Move(
    to=TaskStatus.WAITING,
    changes=""", error = f.error, error_code = f.code, is_limited = false, logs_path = f.logs_path,
    queued_at = coalesce(t.queued_at, :now), started_at = coalesce(t.started_at, :now), assets = NULL""",
    rows=by_key("f.id"),
    where="t.attempt = f.attempt AND t.error_code IS NULL",
    source=f"FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS f({ENDED}, data jsonb, child text)",
    event=MoveEvent(
        "'task_run.handling'",
        """jsonb_build_object('outcome', m.outcome, 'error', m.message, 'errorCode', m.code,
        'handler', m.data ->> 'rule', 'child', m.child)""",
    ),
    returning=f"{OF_THE_ATTEMPT}, t.tenant_id, f.data, f.child",
    stays=True,
).sql
_BEGIN = f"""
WITH {_MOVED}, {archived()}, begun AS (
    INSERT INTO waits (run_id, task_run_id, tenant_id, root_run_id, attempt, kind, due_at, timeout_at, data,
        created_at)
    SELECT m.run_id, m.id, m.tenant_id, :root, m.attempt, 'child', :now, :never, m.data, :now FROM moved AS m
    ON CONFLICT (run_id, task_run_id) DO UPDATE SET attempt = EXCLUDED.attempt, kind = EXCLUDED.kind,
        names = NULL, due_at = EXCLUDED.due_at, timeout_at = EXCLUDED.timeout_at, data = EXCLUDED.data,
        created_at = EXCLUDED.created_at
)
SELECT * FROM moved
"""


def begin(tx: Transaction, run: RunHeader, rows: list[dict[str, Any]]) -> list[TaskRun]:
    """Let task runs wait for the runs that take care of their errors.

    Args:
        rows: of `row_of`.
    """
    if not rows:
        return []
    parameters = {"run_id": run.id, "root": run.root_id, "never": NEVER, "now": tx.now}
    waiting = read(tx.execute(_BEGIN, {**parameters, "rows": orjson.dumps(rows).decode()}))
    tx.announce(WaitBegan(run.id, tuple(each.id for each in waiting)))
    return waiting


# --- reading ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HandledError:
    """The error of a task run of which a run takes care.

    Args:
        error: as its row keeps it.
        logs_path: where the log of the attempt is in storage; None where that follows from its ids.
    """

    error: Mapping[str, Any]
    code: str
    attempt: int
    logs_path: str | None

    def as_seen(self, step_id: str) -> dict[str, Any]:
        """The error as expressions see it."""
        return error_kinds.as_seen(step_id, self.code, self.error, self.attempt)

    def failure(self, wait: Wait, handler_error: dict[str, Any] | None = None) -> Failure:
        """The failure by which the task run fails after all.

        Args:
            wait: that of the task run.
            handler_error: why nobody took care of it; None if that was not meant to complete the step.
        """
        return Failure(
            self.code,
            str(self.error.get("message", "")),
            str(self.error.get("type", "")),
            bool(self.error.get("retryable", True)),
            self.error.get("traceback"),
            self.error.get("details"),
            Outcome(wait.data["outcome"]),
            is_dead=wait.data["isDead"],
            logs_path=self.logs_path,
            follows_rule=True,
            handler_error=handler_error,
        )


_ERRORS = f"""
SELECT t.id, t.error, t.error_code, t.attempt, t.logs_path FROM {NAMED} JOIN task_runs AS t ON {by_key()}
WHERE t.status || '' = 'waiting' AND t.error_code IS NOT NULL
"""


def errors_of(tx: Transaction, run_id: UUID, task_run_ids: Sequence[UUID]) -> dict[UUID, HandledError]:
    """The errors of these task runs of which a run takes care, by their ids; others have none."""
    rows = tx.execute(_ERRORS, {"run_id": run_id, "ids": sorted(task_run_ids)}) if task_run_ids else ()
    return {row.id: HandledError(row.error or {}, row.error_code, row.attempt, row.logs_path) for row in rows}
