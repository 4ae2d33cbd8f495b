"""Begins, reads, postpones and ends waits. Each verb is one statement.

A wait and the status of its task run change together: the row is written by the statement that lets the task
run wait, and deleted by the one that ends it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from pipeweave import ids
from pipeweave.orchestrator.domain.facts import ChildEnded, WaitBegan
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import KeptValue, TaskRun
from pipeweave.orchestrator.domain.waits import CHILD, NEVER, NewWait, Wait
from pipeweave.orchestrator.state import succeeded_retries, waited
from pipeweave.orchestrator.state.named_rows import by_key
from pipeweave.orchestrator.state.rows import COLUMNS, of_row, read
from pipeweave.orchestrator.state.task_transitions import Move, MoveEvent, status_is
from pipeweave.orchestrator.store.database import Transaction

# SQL: the common table expression that deletes the waits of task runs that a move `moved` has ended. Whoever
# moved them has read their waits before.
_LEFT = """left_waits AS (
    DELETE FROM waits AS w USING moved AS m WHERE w.run_id = m.run_id AND w.task_run_id = m.id
)"""

_SHOWN = """jsonb_strip_nulls(jsonb_build_object('kind', m.wait, 'names', m.names,
    'timeoutAt', nullif(m.timeout_at, '9999-12-31T00:00:00Z')))"""
_WAIT = "id uuid, wait text, names jsonb, due_at timestamptz, timeout_at timestamptz, data jsonb"
_OF_THE_WAIT = ", t.tenant_id, w.wait, w.names, w.due_at AS look_at, w.timeout_at, w.data"
# An engine step that is undecided; see `releasing.UNDECIDED`.
_BEGIN = Move(
    to=TaskStatus.WAITING,
    changes=", queued_at = :now, started_at = :now",
    source=f"FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS w({_WAIT})",
    rows=by_key("w.id"),
    where="t.status = 'pending' AND t.due_at IS NULL",
    event=MoveEvent("'task_run.waiting'", _SHOWN),
    returning=_OF_THE_WAIT,
).sql
# A call that suspends itself: the attempt stays the same, and keeps its slot.
_SUSPEND = Move(
    to=TaskStatus.WAITING,
    changes=", assets = w.assets, logs_path = w.logs",
    source=f"""FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS w({_WAIT}, attempt integer, worker text,
        assets jsonb, logs text)""",
    rows=by_key("w.id"),
    where=f"""t.attempt = w.attempt AND (w.worker IS NULL OR t.worker = w.worker)
        AND {status_is(TaskStatus.RUNNING)}""",
    event=MoveEvent("'task_run.waiting'", _SHOWN),
    returning=_OF_THE_WAIT,
).sql


def _begun(move: str) -> str:
    """SQL: the move, and the waits of the rows that it moved."""
    return f"""
WITH {move}, begun AS (
    INSERT INTO waits (run_id, task_run_id, tenant_id, root_run_id, attempt, kind, names, due_at, timeout_at,
        data, created_at)
    SELECT m.run_id, m.id, m.tenant_id, :root, m.attempt, m.wait,
        CASE WHEN m.names IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(m.names)) END,
        m.look_at, m.timeout_at, m.data, :now
    FROM moved AS m
)
SELECT * FROM moved
"""


_BEGUN, _SUSPENDED = _begun(_BEGIN), _begun(_SUSPEND)


def begin(tx: Transaction, run: RunHeader, waits: Sequence[NewWait]) -> list[TaskRun]:
    """Let pending engine steps wait. Those that are decided already are left out of the answer."""
    return _begin(tx, run, waits, _BEGUN)


def suspend(tx: Transaction, run: RunHeader, waits: Sequence[NewWait]) -> list[TaskRun]:
    """Let running attempts wait that have suspended themselves. Fenced ones are left out of the answer."""
    return _begin(tx, run, waits, _SUSPENDED)


def _begin(tx: Transaction, run: RunHeader, waits: Sequence[NewWait], statement: str) -> list[TaskRun]:
    if not waits:
        return []
    rows = [each.to_row() for each in sorted(waits, key=lambda each: each.task_run_id)]
    parameters = {"run_id": run.id, "root": run.root_id, "rows": orjson.dumps(rows).decode(), "now": tx.now}
    begun = read(tx.execute(statement, parameters))
    if begun:
        tx.announce(WaitBegan(run.id, tuple(each.id for each in begun)))
    return begun


_AGAIN = """
INSERT INTO waits (run_id, task_run_id, tenant_id, root_run_id, attempt, kind, due_at, timeout_at, data,
    created_at)
VALUES (:run_id, :id, :tenant, :root, :attempt, 'child', :now, :timeout_at, CAST(:data AS jsonb), :now)
"""


def wait_again(tx: Transaction, run: RunHeader, task_run: TaskRun, data: Mapping[str, Any]) -> None:
    """Write the wait of a task run that waits again for a child, which goes on."""
    parameters = {"id": task_run.id, "attempt": task_run.attempt, "data": orjson.dumps(dict(data)).decode()}
    place = {"run_id": run.id, "tenant": run.tenant, "root": run.root_id, "timeout_at": NEVER}
    tx.execute(_AGAIN, {**parameters, **place, "now": tx.now})


# --- reading ----------------------------------------------------------------------------------------------

WAIT_COLUMNS = """w.run_id, w.task_run_id, w.tenant_id, w.root_run_id, w.attempt, w.kind, w.names, w.due_at,
    w.timeout_at, w.data, w.created_at, w.needs_storage"""
_WIDTH = 12


def wait_of(row: Any) -> Wait:
    """The wait of a row that starts with WAIT_COLUMNS."""
    values = list(row[:_WIDTH])
    values[6] = None if values[6] is None else tuple(values[6])
    return Wait(*values)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A wait with its task run. `is_open`: the task run still waits in the attempt that began the wait."""

    wait: Wait
    task_run: TaskRun
    is_open: bool


_READ = f"""
SELECT {WAIT_COLUMNS}, {COLUMNS}
FROM unnest(CAST(:run_ids AS uuid[]), CAST(:ids AS uuid[])) AS n(run_id, id)
    JOIN waits AS w ON w.run_id = n.run_id AND w.task_run_id = n.id
    JOIN task_runs AS t ON t.run_id = w.run_id AND t.id = w.task_run_id
WHERE t.run_id = ANY(CAST(:run_ids AS uuid[]))
ORDER BY w.run_id, w.task_run_id
"""


def find(tx: Transaction, keys: Sequence[tuple[UUID, UUID]]) -> list[Waiting]:
    """The open waits of these task runs, given by run and id, in the order of their ids."""
    if not keys:
        return []
    parameters = {"run_ids": [run_id for run_id, _ in keys], "ids": [id for _, id in keys]}
    return [_waiting(row) for row in tx.execute(_READ, parameters)]


def _waiting(row: Any) -> Waiting:
    wait, task_run = wait_of(row), of_row(row[_WIDTH:])
    is_open = task_run.status is TaskStatus.WAITING and task_run.attempt == wait.attempt
    return Waiting(wait, task_run, is_open)


# --- the end, and what is before it -----------------------------------------------------------------------

# Who sent a signal meanwhile has changed the time: it stays.
_POSTPONE = """
UPDATE waits AS w SET due_at = :due_at, needs_storage = false
WHERE w.run_id = :run_id AND w.task_run_id = :id AND w.attempt = :attempt AND w.due_at = :seen
"""


def postpone(tx: Transaction, wait: Wait, due_at: datetime) -> None:
    """Look at a wait again at this time, unless something came since it was read."""
    if due_at != wait.due_at:
        tx.execute(_POSTPONE, {**_key(wait), "seen": wait.due_at, "due_at": due_at})


_NEED_STORAGE = """
UPDATE waits AS w SET needs_storage = true, due_at = least(w.due_at, :now)
WHERE w.run_id = :run_id AND w.task_run_id = :id AND w.attempt = :attempt AND NOT w.needs_storage
"""


def leave_to_storage(tx: Transaction, wait: Wait) -> None:
    """Leave a wait to those who load and store values: it is due, and nobody else looks at it."""
    if not wait.needs_storage:
        tx.execute(_NEED_STORAGE, {**_key(wait), "now": tx.now})


_ASK_LATER = """
UPDATE waits AS w SET due_at = :due_at WHERE w.run_id = :run_id AND w.task_run_id = :id AND w.needs_storage
"""


def ask_storage_later(tx: Transaction, key: tuple[UUID, UUID], due_at: datetime) -> None:
    """Look again at this time at a wait, named by run and task run, which storage does not give what it
    needs.
    """
    tx.execute(_ASK_LATER, {"run_id": key[0], "id": key[1], "due_at": due_at})


_FORGET = "DELETE FROM waits AS w WHERE w.run_id = :run_id AND w.task_run_id = :id AND w.attempt = :attempt"


def forget(tx: Transaction, wait: Wait) -> None:
    """Delete a wait whose task run has ended, or does not wait any more."""
    tx.execute(_FORGET, _key(wait))


# That of the run itself is for what follows its end.
_FORGET_ALL = """
DELETE FROM waits AS w WHERE w.run_id = :run_id AND w.task_run_id <> :run_id RETURNING w.kind
"""


def forget_all(tx: Transaction, run_id: UUID) -> bool:
    """Delete the waits of a run of which this transaction has ended every task run. True if one of them was
    for a child.

    A statement of its own: the one that ended them may have waited for a transaction that let one of them
    wait, and does not see its wait.
    """
    return CHILD in list(tx.execute(_FORGET_ALL, {"run_id": run_id}).scalars())


def _key(wait: Wait) -> dict[str, Any]:
    return {"run_id": wait.run_id, "id": wait.task_run_id, "attempt": wait.attempt}


# What two processes know of PostgreSQL's clock differs by less than this.
_CLOCKS_DIFFER = timedelta(seconds=1)
# SQL: whether the child of a wait `w` has ended, or is to start.
_IS_DUE = "w.due_at <= :soon AND NOT w.needs_storage"
# Children of a map that have ended wait for others while so many are open for each of them: with a hundred at
# once, ten end together. The workers have enough to do meanwhile.
OPEN_FOR_EACH = 10

# It counts what was before its own change.
_CHILD_ENDED = f"""
WITH woken AS (
    UPDATE waits AS w SET due_at = :now
    WHERE w.run_id = :run_id AND w.task_run_id = :id AND w.kind = 'child'
)
SELECT count(*) AS open, count(*) FILTER (WHERE {_IS_DUE} OR w.task_run_id = :id) AS ended,
    EXISTS (SELECT 1 FROM task_runs AS t
        WHERE t.run_id = :run_id AND t.id = :id AND t.map_parent IS NOT NULL) AS is_of_map
FROM waits AS w WHERE w.run_id = :run_id AND w.kind = 'child'
"""


_LOOK_AT_ALL = "UPDATE waits AS w SET due_at = :now WHERE w.run_id = :run_id AND w.kind = 'child'"


def look_at_children(tx: Transaction, run_id: UUID) -> None:
    """Have all waits of a run looked at that are for children: it may start them again."""
    tx.execute(_LOOK_AT_ALL, {"run_id": run_id, "now": tx.now})


def child_ended(tx: Transaction, task_run_id: UUID, *, is_well: bool) -> None:
    """Have the wait looked at that a child run ends, whatever becomes of this process; at once, unless it is
    one of a map that ended well, and few others have.

    Args:
        task_run_id: the task run that waits.
        is_well: whether the child has an output.
    """
    run_id = ids.run_id_of(task_run_id)
    parameters = {"run_id": run_id, "id": task_run_id, "now": tx.now, "soon": tx.now + _CLOCKS_DIFFER}
    row: Any = tx.execute(_CHILD_ENDED, parameters).one()
    if not (row.is_of_map and is_well) or are_enough(row.ended, row.open):
        tx.announce(ChildEnded(run_id))


def are_enough(ended: int, are_open: int) -> bool:
    """Whether so many of the children of a run have ended that their waits end now.

    Args:
        are_open: how many waits of the run are for children, those of the ended ones among them.
    """
    return ended * OPEN_FOR_EACH >= are_open


_GO_ON = """
UPDATE waits AS w SET data = CAST(:data AS jsonb), due_at = :due_at, needs_storage = false
WHERE w.run_id = :run_id AND w.task_run_id = :id AND w.attempt = :attempt AND w.data ->> 'run' = :before
"""


def go_on(tx: Transaction, wait: Wait, data: Mapping[str, Any], due_at: datetime) -> bool:
    """Let a wait go on with another child run. False when another transaction did."""
    parameters = {"data": orjson.dumps(dict(data)).decode(), "before": wait.data["run"], "due_at": due_at}
    return tx.execute(_GO_ON, {**_key(wait), **parameters}).rowcount > 0


_START_CHILDREN = """
WITH locked AS (
    SELECT w.task_run_id
    FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS integer[]), CAST(:children AS text[]))
            AS n(id, attempt, child)
        JOIN waits AS w ON w.run_id IN (:run_id, :run_id) AND w.task_run_id = n.id AND (n.id = n.id) IS TRUE
    WHERE w.attempt = n.attempt AND w.data ->> 'run' = n.child
        AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.id = CAST(n.child AS uuid))
    ORDER BY w.task_run_id FOR UPDATE OF w SKIP LOCKED
)
UPDATE waits AS w SET due_at = :due_at, needs_storage = false FROM locked AS l
WHERE w.run_id = :run_id AND w.task_run_id = l.task_run_id RETURNING w.task_run_id
"""


def start_children(tx: Transaction, run_id: UUID, waits: Sequence[Wait], due_at: datetime) -> set[UUID]:
    """Lock waits of a run, to start their children, and have them looked at again later: the end of a child
    makes its wait due. Returns the ids of their task runs, without those that are over, go on already, have
    another look at them, or whose child has started.

    Args:
        due_at: when to look whatever comes.
    """
    ordered = sorted(waits, key=lambda each: each.task_run_id)
    parameters = {
        "run_id": run_id,
        "ids": [each.task_run_id for each in ordered],
        "attempts": [each.attempt for each in ordered],
        "children": [each.data["run"] for each in ordered],
        "due_at": due_at,
    }
    return set(tx.execute(_START_CHILDREN, parameters).scalars())


_FOR_CHILDREN = f"""
SELECT count(*) AS open, array_agg(w.task_run_id ORDER BY w.task_run_id) FILTER (WHERE {_IS_DUE}) AS due
FROM waits AS w WHERE w.run_id = :run_id AND w.kind = 'child'
"""


def for_children(tx: Transaction, run_id: UUID) -> tuple[int, list[UUID]]:
    """How many waits of a run are for children, and the task runs of those whose children have ended or are
    to start.
    """
    parameters = {"run_id": run_id, "soon": tx.now + _CLOCKS_DIFFER}
    row: Any = tx.execute(_FOR_CHILDREN, parameters).one()
    return row.open, list(row.due or ())


_EXTEND = """
WITH extended AS (
    UPDATE waits AS w SET timeout_at = :timeout_at, due_at = :due_at
    WHERE w.run_id = :run_id AND w.task_run_id = :id AND w.attempt = :attempt
    RETURNING w.run_id, w.task_run_id, w.attempt, w.timeout_at
)
INSERT INTO events (run_id, at, type, task_run_id, attempt, data)
SELECT e.run_id, :now, 'task_run.extended', e.task_run_id, e.attempt,
    jsonb_strip_nulls(jsonb_build_object('timeoutAt', e.timeout_at, 'by', CAST(:by AS text)))
FROM extended AS e
"""


def extend(tx: Transaction, wait: Wait, *, timeout_at: datetime, due_at: datetime, by: str | None) -> bool:
    """Let a wait end at another time. False when it was over.

    Args:
        by: who wants it; None if that is not known.
    """
    parameters = {**_key(wait), "timeout_at": timeout_at, "due_at": due_at, "by": by, "now": tx.now}
    return tx.execute(_EXTEND, parameters).rowcount > 0


_COMPLETE = Move(
    to=TaskStatus.COMPLETED,
    changes=""", finished_at = greatest(:now, t.started_at), output = o.output, output_path = o.path,
        output_size = o.size, output_hash = o.hash, selected_next = CASE WHEN o.next IS NOT NULL THEN
        ARRAY(SELECT jsonb_array_elements_text(o.next)) END""",
    source="""FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS o(id uuid, attempt integer, output jsonb,
        path text, size integer, hash text, next jsonb, said jsonb)""",
    rows=by_key("o.id"),
    where=f"t.attempt = o.attempt AND {status_is(TaskStatus.WAITING)}",
    event=MoveEvent(
        "'task_run.completed'",
        """m.said || jsonb_strip_nulls(jsonb_build_object('outputHash', m.output_hash,
        'selectedNext', to_jsonb(m.selected_next)))""",
    ),
    returning=", o.said, t.max_attempts",
).sql
# The signal at each place of :signals is taken by the task run at the same place of :takers.
_TAKEN = """taken AS (
    UPDATE signals AS s SET taken_by = m.id, taken_at = :now FROM moved AS m
    WHERE s.run_id = :root AND s.id = ANY(CAST(:signals AS uuid[])) AND s.taken_at IS NULL
        AND m.id = (CAST(:takers AS uuid[]))[array_position(CAST(:signals AS uuid[]), s.id)]
)"""
_COMPLETED = f"WITH {_COMPLETE}, {_LEFT} SELECT * FROM moved"
_COMPLETED_BY_SIGNALS = f"WITH {_COMPLETE}, {_TAKEN}, {_LEFT} SELECT * FROM moved"


@dataclass(frozen=True, slots=True)
class EndedWell:
    """A wait that is over, with which its task run completes.

    Args:
        output: of the task run.
        cause: what ended it: its kind, `default`, or `repair`.
        by: who did; None where nobody did, or it is not known.
        signals: those that it takes; the caller has locked them (`signals.lock`).
        came_at: when what ended it had come; None if that says nothing.
        chosen: the ids of the successors that the step selects; None for all.
    """

    wait: Wait
    output: KeptValue
    cause: str
    by: str | None
    signals: Sequence[UUID]
    came_at: datetime | None
    chosen: Sequence[str] | None = None

    def to_row(self, now: datetime) -> str:
        """The row of the statement that completes it, as JSON."""
        said = {
            **waited.of_a_completion(self.wait, self.came_at, now),
            "cause": self.cause,
            "by": self.by,
            "handled": True if self.wait.rule is not None else None,
        }
        row = {
            "id": str(self.wait.task_run_id),
            "attempt": self.wait.attempt,
            "path": self.output.path,
            "size": self.output.size,
            "hash": self.output.hash,
            "next": None if self.chosen is None else list(self.chosen),
            "said": {key: each for key, each in said.items() if each is not None},
        }
        # The output is JSON text already: it is inserted as it is.
        return f'{orjson.dumps(row).decode()[:-1]},"output":{self.output.inline or "null"}}}'


def complete(tx: Transaction, run: RunHeader, over: Sequence[EndedWell]) -> list[TaskRun]:
    """Complete the task runs of waits of a run, take their signals and delete the waits. Those that were over
    before are left out of the answer.
    """
    first = over[0].wait
    # In the order of their ids, in which rows are locked.
    rows = [each.to_row(tx.now) for each in sorted(over, key=lambda each: each.wait.task_run_id)]
    parameters = {"run_id": first.run_id, "rows": f"[{','.join(rows)}]", "now": tx.now}
    taken = [(each.wait.task_run_id, signal) for each in over for signal in each.signals]
    if taken:
        done = tx.execute(_COMPLETED_BY_SIGNALS, {**parameters, **_takes(first, taken)}).all()
    else:
        done = tx.execute(_COMPLETED, parameters).all()
    succeeded_retries.log_after_commit(tx, run, [(of_row(each), each.max_attempts) for each in done])
    return read(done)


def _takes(wait: Wait, taken: Sequence[tuple[UUID, UUID]]) -> dict[str, Any]:
    """The parameters of _TAKEN besides the time: task runs, each with a signal that it takes."""
    takers, signals = [each for each, _ in taken], [signal for _, signal in taken]
    return {"root": wait.root_run_id, "takers": takers, "signals": signals}


_OVER = f"""
WITH moved AS (SELECT CAST(:run_id AS uuid) AS run_id, CAST(:id AS uuid) AS id), {_TAKEN}, {_LEFT}
SELECT 1
"""


_TAKEN_ALONE = f"""
WITH moved AS (SELECT CAST(:id AS uuid) AS id), {_TAKEN}
SELECT 1
"""


def take_signals(tx: Transaction, wait: Wait, signals: Sequence[UUID]) -> None:
    """Take the signals of a wait in whose place its task run has another one now."""
    if signals:
        taken = [(wait.task_run_id, each) for each in signals]
        tx.execute(_TAKEN_ALONE, {"id": wait.task_run_id, "now": tx.now, **_takes(wait, taken)})


def end_failed(tx: Transaction, wait: Wait, signals: Sequence[UUID]) -> None:
    """Take the signals of a wait whose attempt this transaction has ended, and delete it."""
    taken = [(wait.task_run_id, each) for each in signals]
    tx.execute(_OVER, {**_key(wait), "now": tx.now, **_takes(wait, taken)})
