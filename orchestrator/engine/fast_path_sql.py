"""SQL of the fast path (fast_path.py): completes steps, and goes on behind them, in one statement."""

from __future__ import annotations

from pipeweave.orchestrator.domain.events import LIMIT, PAUSE
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.state import claiming, completing, pause_sql, releasing, run_transitions
from pipeweave.orchestrator.state.named_rows import by_key
from pipeweave.orchestrator.state.task_transitions import Move, MoveEvent, OneOf, logged

# Locks the joins in the order of their ids; the statement after it sees the changes that the lock waited for.
LOCK_JOINS = f"""
SELECT 1 FROM unnest(CAST(:joins AS uuid[])) AS n(id) JOIN task_runs AS t ON {by_key()}
WHERE {releasing.UNDECIDED} ORDER BY t.id FOR UPDATE OF t
"""
LOCK_RUN = "SELECT 1 FROM runs AS r WHERE r.id = :run_id AND r.finished_at IS NULL FOR UPDATE"

# The other predecessors of each join. A predecessor blocks the join unless it completed and selected every
# successor: it is still open, or the rules must decide.
_STANDING = f"""standing AS (
    SELECT e.next, bool_or(p.finished_at IS NULL) AS is_open, max(p.finished_at) AS last_at,
        bool_or(p.status <> 'completed' OR p.selected_next IS NOT NULL) AS is_blocked
    FROM unnest(CAST(:joins AS uuid[]), CAST(:others AS uuid[])) AS e(next, other)
        JOIN task_runs AS p ON {by_key("e.other", "p")}
    GROUP BY e.next
)"""
_UNDECIDED = """(SELECT array_agg(b.next) FROM standing AS b
    WHERE b.is_blocked AND NOT b.is_open) AS undecided"""

# MATERIALIZED: PostgreSQL reads the pauses once a statement; the places below only look into the array.
_PAUSED = f"""paused AS MATERIALIZED (SELECT {pause_sql.paused_tasks(":tenant")} AS tasks,
    {pause_sql.is_run_paused(":run_id")} AS is_run)"""
_HELD = pause_sql.held(f"x.is_run OR {pause_sql.is_among('x.tasks', 't.task_id')}")

# The claimant continues those that it takes, unless they have another queue or are held.
_HERE = f"t.id = ANY(CAST(:here AS uuid[])) AND t.queue = ANY(CAST(:queues AS text[])) AND NOT {_HELD}"


# When the completed task runs ended. It may be later than :now, where the claim knew a faster clock.
_ENDED = "(SELECT max(d.finished_at) FROM moved AS d)"
# Not where one of several attempts is fenced: what follows is not decided here then.
_ALL_STORED = "(SELECT count(*) FROM moved) = CAST(:count AS integer)"


def _going_on(completed: Move, where: str, begins: str, behind: str = "") -> str:
    """The release of the next steps, and the events of both.

    Args:
        completed: the move that completes the steps before them.
        where: SQL of a further condition.
        begins: SQL of the time at which they begin.
        behind: a FROM item, before a comma.
    """
    released = Move(
        name="released",
        to=OneOf(
            f"CASE WHEN {_HERE} THEN 'running' WHEN {_HELD} THEN 'ready' ELSE 'queued' END",
            (TaskStatus.RUNNING, TaskStatus.READY, TaskStatus.QUEUED),
        ),
        changes=f""", queued_at = CAST({begins} AS timestamptz),
        worker = CASE WHEN {_HERE} THEN CAST(:worker AS text) END,
        started_at = CASE WHEN {_HERE} THEN CAST({begins} AS timestamptz) END,
        claimed_at = CASE WHEN {_HERE} THEN now() END, heartbeat_at = CASE WHEN {_HERE} THEN now() END""",
        rows=by_key(),
        where=f"{releasing.UNDECIDED} AND {where}",
        source=f"""FROM {behind}paused AS x,
            unnest(CAST(:nexts AS uuid[]), CAST(:ordinals AS integer[])) AS n(id, ordinal)""",
        event=MoveEvent(
            "CASE WHEN m.status = 'running' THEN 'task_run.started' ELSE 'task_runs.' || m.status END",
            f"""CASE WHEN m.status = 'running' THEN {claiming.STARTED_FROM_PENDING}
            ELSE jsonb_strip_nulls(jsonb_build_object('ordinals',
                jsonb_build_array(jsonb_build_array(m.ordinal, m.ordinal)), 'cause',
                CASE WHEN m.status = 'ready' THEN CASE WHEN m.is_limited THEN '{LIMIT}' ELSE '{PAUSE}' END
                END)) END""",
        ),
        returning=", n.ordinal",
    )
    return f"{_PAUSED}, {released.update}, {logged(completed.events, released.events)}"


_FREE = "NOT EXISTS (SELECT 1 FROM standing AS b WHERE b.next = t.id AND b.is_blocked)"
# This transaction may have begun before the one that it waited for; a join starts after both.
_AFTER_ALL = f"greatest({_ENDED}, (SELECT b.last_at FROM standing AS b WHERE b.next = t.id))"

# Behind one result: nothing is released where its attempt is fenced, because no row of `moved` is joined.
_ONE = completing.COMPLETE_ONE
GO_ON = f"""
WITH {_ONE.update}, {_going_on(_ONE, "true", "d.finished_at", "moved AS d, ")} SELECT * FROM released
"""
_ALL = completing.COMPLETE
GO_ON_TO_JOINS = f"""
WITH {_ALL.update}, {_STANDING}, {_going_on(_ALL, f"{_ALL_STORED} AND {_FREE}", _AFTER_ALL)}
SELECT r.*, u.undecided, u.stored
FROM (SELECT {_UNDECIDED}, (SELECT count(*) FROM moved) AS stored) AS u LEFT JOIN released AS r ON true
"""

_GOES_ON = "NOT EXISTS (SELECT 1 FROM run)"
LAST = f"""
WITH {_ONE.update}, {run_transitions.completed_with(_ONE.events, "true", _ENDED)}
SELECT {run_transitions.AWAITED}, {_GOES_ON} AS is_reopened FROM moved
"""
_NONE_BLOCKS = "NOT EXISTS (SELECT 1 FROM standing AS b WHERE b.is_blocked)"
_LAST_ONES = f"{_ALL_STORED} AND {_NONE_BLOCKS}"
_AFTER_ALL_ENDS = f"greatest({_ENDED}, (SELECT max(b.last_at) FROM standing AS b))"
LAST_OF_SEVERAL = f"""
WITH {_ALL.update}, {_STANDING},
    {run_transitions.completed_with(_ALL.events, _LAST_ONES, _AFTER_ALL_ENDS)}
SELECT {_UNDECIDED}, {run_transitions.AWAITED}, {_GOES_ON} AND {_NONE_BLOCKS} AS is_reopened
FROM moved
"""
