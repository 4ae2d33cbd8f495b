"""The test whether a task or a run is paused, as SQL; every statement that asks takes it from here.

A pause is a row: of `pauses` for one task, or with the task id ALL_TASKS for all tasks of a tenant; of
`run_pauses` for one run. Both tables are nearly always empty.
"""

from __future__ import annotations

# The task id of a pause of all tasks of a tenant.
ALL_TASKS = ""


def from_pauses(tenant: str, task: str) -> str:
    """SQL: FROM and WHERE that find the pauses `p` of this task and of its whole tenant."""
    return f"FROM pauses AS p WHERE p.tenant_id = {tenant} AND p.task_id IN ('{ALL_TASKS}', {task})"


def is_paused(tenant: str, task: str) -> str:
    """SQL: whether this task, or its whole tenant, is paused.

    PostgreSQL looks first, once a statement, whether there is any pause at all; nearly always there is none,
    and no row costs another look.
    """
    return f"(EXISTS (SELECT 1 FROM pauses) AND EXISTS (SELECT 1 {from_pauses(tenant, task)}))"


def paused_tasks(tenant: str) -> str:
    """SQL: the task ids that are paused in this tenant, as an array in their order; ALL_TASKS is one of them
    while the whole tenant is paused.

    For a statement that asks in many places (`is_among` reads the array), or compares all pauses at once.
    """
    return f"ARRAY(SELECT p.task_id FROM pauses AS p WHERE p.tenant_id = {tenant} ORDER BY p.task_id)"


def is_among(tasks: str, task: str) -> str:
    """SQL: whether this task is paused, by an array that `paused_tasks` made."""
    return f"('{ALL_TASKS}' = ANY({tasks}) OR {task} = ANY({tasks}))"


def is_run_paused(run: str) -> str:
    """SQL: whether this run is paused; as in `is_paused`, the whole table is looked at first."""
    return f"""(EXISTS (SELECT 1 FROM run_pauses)
        AND EXISTS (SELECT 1 FROM run_pauses AS h WHERE h.run_id = {run}))"""


def held(is_paused: str) -> str:
    """SQL: whether the task run `t` is held, by its task's limit or by a pause (SQL that tells it)."""
    return f"(t.is_limited OR {is_paused})"


# Whether the run of the task run `t` is paused.
IS_RUN_PAUSED = is_run_paused("t.run_id")
# Whether the task or the run of the task run `t` is paused.
IS_PAUSED = f"({is_paused('t.tenant_id', 't.task_id')} OR {IS_RUN_PAUSED})"
# A task run that is held becomes `ready` instead of `queued` or `running`; it goes on when the limit has room
# and the pause ends. Each statement that releases task runs asks this itself: a pause that began after an
# earlier look is not missed.
HELD = held(IS_PAUSED)
