"""Completes attempts and stores their results; lays out and finishes maps. `attempts.py` ends failed ones.

Each verb is one guarded UPDATE that returns the rows it moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import orjson

from pipeweave import ids
from pipeweave.orchestrator.domain import kind_sql
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import TaskStatus as T
from pipeweave.orchestrator.domain.task_run import Completion, KeptValue, TaskRun
from pipeweave.orchestrator.state import succeeded_retries
from pipeweave.orchestrator.state.named_rows import by_key
from pipeweave.orchestrator.state.releasing import UNDECIDED
from pipeweave.orchestrator.state.rows import of_row
from pipeweave.orchestrator.state.task_transitions import Move, MoveEvent, move, status_is
from pipeweave.orchestrator.store.database import Transaction

# The columns that a completion sets, from a row `o`.
_OUTPUT = """, finished_at = greatest(:now, t.started_at), output = o.output, output_path = o.path,
    output_size = o.size, output_hash = o.hash, assets = o.assets, logs_path = o.logs, selected_next = """
_CHOSEN = """CASE WHEN o.next IS NOT NULL THEN
        ARRAY(SELECT jsonb_array_elements_text(o.next)) END"""

_COMPLETED = "jsonb_build_object('outputHash', m.output_hash, 'selectedNext', to_jsonb(m.selected_next))"
# Two processes may hold the same attempt after a failover that lost the claim of one of them. What is known
# by its ids alone, as the report of a service, names no worker.
IS_HOLDER = "(o.worker IS NULL OR t.worker = o.worker)"


def _of_rows(columns: str = "") -> str:
    """The rows `o`, of :rows."""
    return f"""FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS o(id uuid, attempt integer, worker text,
            output jsonb, path text, size integer, hash text, next jsonb, assets jsonb, logs text
            {columns})"""


def _complete(
    source: str, changes: str = "", data: str = "", returning: str = "", *, chosen: str = _CHOSEN
) -> Move:
    return Move(
        to=T.COMPLETED,
        changes=f"{_OUTPUT}{chosen}{changes}",
        rows=by_key("o.id"),
        where=f"t.attempt = o.attempt AND {IS_HOLDER} AND {status_is(T.RUNNING)}",
        source=source,
        event=MoveEvent("'task_run.completed'", f"jsonb_strip_nulls({_COMPLETED}){data}"),
        returning=returning,
    )


# For a statement that goes on: what follows begins when the task run ended.
COMPLETE = _complete(_of_rows(), returning=", t.finished_at")
# The same for one result that chooses no successors: PostgreSQL reads no JSON for what are parameters.
COMPLETE_ONE = _complete(
    """FROM (SELECT CAST(:id AS uuid) AS id, CAST(:attempt AS integer) AS attempt,
            CAST(:holder AS text) AS worker, CAST(nullif(:output, 'null') AS jsonb) AS output,
            CAST(:path AS text) AS path, CAST(:size AS integer) AS size, CAST(:hash AS text) AS hash,
            CAST(:assets AS jsonb) AS assets, CAST(:logs AS text) AS logs) AS o""",
    returning=", t.finished_at",
    chosen="NULL",
)
# Who stores a result knows the task run, but for what may have changed since its claim.
_COMPLETE_ALONE = f"""
WITH {_complete(_of_rows(), returning=", t.max_attempts").sql}
SELECT m.id, m.is_limited, m.max_attempts FROM moved AS m
"""
# Completes with the result of another task run, found by an idempotency key.
_CACHED = _complete(
    _of_rows(", key text, origin uuid, shown text"),
    ", idempotency_key = o.key, cached_from = o.origin",
    " || jsonb_build_object('cached', true, 'cachedFrom', m.shown)",
    ", o.shown, t.max_attempts",
).sql

_COMPLETE_CACHED = f"WITH {_CACHED} SELECT * FROM moved"


def complete(
    tx: Transaction, completions: Sequence[Completion], *, run: RunHeader | None = None
) -> list[TaskRun]:
    """Store results and complete the attempts. Attempts that are fenced are left out of the answer.

    Args:
        run: that of the attempts, for the log; None for no lines.
    """
    cached = [each for each in completions if each.cached_from is not None]
    own = [each for each in completions if each.cached_from is None] if cached else completions
    done = _complete_alone(tx, own) if own else []
    more = tx.execute(_COMPLETE_CACHED, completed(tx, cached)).all() if cached else []
    done += [(of_row(row), row.max_attempts) for row in more]
    if run is not None:
        succeeded_retries.log_after_commit(tx, run, done)
    return [task_run for task_run, _ in done]


def _complete_alone(tx: Transaction, own: Sequence[Completion]) -> list[tuple[TaskRun, int]]:
    """The task runs that completed, each with how many attempts it may have."""
    by_id = {row.id.int: row for row in tx.execute(_COMPLETE_ALONE, completed(tx, own))}
    with_rows = [(each.task_run, by_id.pop(each.task_run.id.int, None)) for each in own]
    return [
        (task_run._replace(status=T.COMPLETED, is_limited=row.is_limited), row.max_attempts)
        for task_run, row in with_rows
        if row is not None
    ]


def completed(tx: Transaction, completions: Sequence[Completion]) -> dict[str, Any]:
    """The parameters of COMPLETE; the completions are of one run."""
    # In the order of their ids, in which rows are locked.
    rows = ",".join(map(_completion_row, sorted(completions, key=lambda each: each.task_run.id.int)))
    return {"run_id": completions[0].task_run.run_id, "rows": f"[{rows}]", "now": tx.now}


def completed_one(tx: Transaction, completion: Completion) -> dict[str, Any]:
    """The parameters of COMPLETE_ONE."""
    done, output, assets = completion.task_run, completion.output, completion.assets
    return {
        "run_id": done.run_id,
        "id": done.id,
        "attempt": done.attempt,
        "holder": done.worker,
        "output": output.inline,
        "path": output.path,
        "size": output.size,
        "hash": output.hash,
        "assets": None if assets is None else orjson.dumps(assets).decode(),
        "logs": completion.logs_path,
        "now": tx.now,
    }


def _completion_row(completion: Completion) -> str:
    # The output is JSON text already: inserting it as text saves parsing and writing it again.
    row = {
        "id": str(completion.task_run.id),
        "attempt": completion.task_run.attempt,
        "worker": completion.task_run.worker,
        "path": completion.output.path,
        "size": completion.output.size,
        "hash": completion.output.hash,
        "next": completion.selected_next,
        "assets": completion.assets,
        "logs": completion.logs_path,
    }
    if completion.cached_from is not None:
        shown = ids.show(ids.TASK_RUN, completion.cached_from)
        row |= {"key": completion.key, "origin": str(completion.cached_from), "shown": shown}
    head = orjson.dumps(row).decode()
    return f'{head[:-1]},"output":{completion.output.inline or "null"}}}'


# The step was decided in no time, by no worker. As of a call, the output null is NULL.
_MADE = Move(
    to=T.COMPLETED,
    changes=""", started_at = :now, finished_at = :now, output = CAST(nullif(o.output, 'null') AS jsonb),
    output_size = o.size, output_hash = o.hash, selected_next = CASE WHEN o.next IS NOT NULL THEN
        ARRAY(SELECT jsonb_array_elements_text(o.next)) END""",
    rows=by_key("o.id"),
    where=UNDECIDED,
    source="""FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS o(id uuid, output text, size integer,
        hash text, next jsonb)""",
    event=MoveEvent("'task_run.completed'", f"jsonb_strip_nulls({_COMPLETED})"),
)


def complete_made(
    tx: Transaction, run_id: UUID, made: Sequence[tuple[int, KeptValue, Sequence[str] | None]]
) -> list[TaskRun]:
    """Complete pending steps that the engine decides. What another transaction has decided is left out.

    Args:
        made: ordinal, output (inline) and the ids of the chosen successors, None for all.
    """
    if not made:
        return []
    rows = [
        {
            "id": ids.task_run_id(run_id, ordinal),
            "output": output.inline,
            "size": output.size,
            "hash": output.hash,
            "next": chosen,
        }
        for ordinal, output, chosen in sorted(made, key=lambda each: each[0])
    ]
    return move(tx, run_id, _MADE, {"rows": orjson.dumps(rows).decode()})


_LAY_OUT = Move(
    to=T.WAITING,
    changes=", started_at = :now, queued_at = :now, map_first = :first, map_count = :count",
    where=f"t.id = :id AND t.status = 'pending' AND {kind_sql.HAS_ITEMS}",
    event=MoveEvent(
        "'task_run.mapped'",
        "jsonb_build_object('first', CAST(:first AS integer), 'count', CAST(:count AS integer))",
    ),
)


def lay_out(tx: Transaction, run_id: UUID, ordinal: int, *, first: int, count: int) -> TaskRun | None:
    """Let a pending map wait for its items, which were inserted by this transaction.

    Args:
        first: the ordinal of the first item.
        count: the number of items.

    Returns:
        The map's own task run; None when it was not pending.
    """
    parameters = {"id": ids.task_run_id(run_id, ordinal), "first": first, "count": count}
    moved = move(tx, run_id, _LAY_OUT, parameters)
    return moved[0] if moved else None


_FINISH_MAP = Move(
    to=T.COMPLETED,
    changes=""", started_at = coalesce(t.started_at, :now), finished_at = greatest(:now, t.started_at),
    map_count = :count""",
    where=f"t.id = :id AND {kind_sql.HAS_ITEMS}",
    event=MoveEvent("'task_run.completed'", "jsonb_build_object('count', CAST(:count AS integer))"),
)


def finish_map(tx: Transaction, run_id: UUID, ordinal: int, *, count: int) -> TaskRun | None:
    """Complete a map: all its items are final, and none failed or the failure mode allows it.

    A map's row keeps no output: its output is the list of its items' outputs, read from their rows.

    Returns:
        The map's own task run; None when it was final already.
    """
    moved = move(tx, run_id, _FINISH_MAP, {"id": ids.task_run_id(run_id, ordinal), "count": count})
    return moved[0] if moved else None
