"""SQL that tells whether a task run is paused or limited, and so becomes `ready` instead of `queued`."""

from __future__ import annotations


def is_paused(tenant: str, task: str) -> str:
    """SQL: whether someone paused this task, or its whole tenant. The table is nearly always empty, and then
    the first look is all there is, once a statement.
    """
    return f"""(EXISTS (SELECT 1 FROM pauses) AND EXISTS (
        SELECT 1 FROM pauses AS p WHERE p.tenant_id = {tenant} AND p.task_id IN ('', {task})))"""


IS_PAUSED = is_paused("t.tenant_id", "t.task_id")


def held(is_paused: str) -> str:
    """SQL: whether the task run `t` is held, where this says whether it is paused."""
    return f"(t.is_limited OR {is_paused})"


# What is to go becomes `ready` instead of `queued` or `running`: a limit or a person decides when. Each
# statement that lets task runs go asks for itself, so that nothing slips in behind an earlier look.
HELD = held(IS_PAUSED)
