"""Tell a misspelt name from a name without objects: both make a filtered list empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeweave.errors import NotFound
from pipeweave.suggestions import did_you_mean

if TYPE_CHECKING:
    from pipeweave.client import Client


def require_tenant(client: Client) -> None:
    """Check that the tenant exists that the client acts for, if it names one: a list of no tenant is empty.

    Raises:
        NotFound: there is no such tenant.
    """
    if client.tenant_name is None:
        return
    known = [str(each["id"]) for each in client.tenants()]
    if client.tenant_name not in known:
        raise NotFound(
            f"tenant {client.tenant_name!r} does not exist",
            hint=did_you_mean(client.tenant_name, known, f"you may enter: {', '.join(known[:10]) or 'none'}"),
        )


def require_pipeline(client: Client, pipeline: str | None) -> None:
    """Check that a pipeline exists, if one is named.

    Raises:
        NotFound: there is no such pipeline.
    """
    if pipeline is not None:
        client.pipeline(pipeline)


def require_task(client: Client, task: str | None) -> None:
    """Check that a task exists, if one is named.

    Raises:
        NotFound: there is no such task.
    """
    if task is None:
        return
    known = [str(each["id"]) for each in client.tasks()]
    if task not in known:
        raise NotFound(
            f"task {task!r} not found", hint=did_you_mean(task, known, "`pipeweave tasks` lists the tasks")
        )
