"""Calls actions of adapters as a worker does, without one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeweave.attempt import call_to_end
from pipeweave.authoring import CallResult, Context, Task, bind, outcome_of
from pipeweave.authoring.deployment_means import DeploymentMeans
from pipeweave.settings import Settings
from pipeweave.storage import Backends, LocalStorage
from pipeweave.workers.consumer.deployment_access import DeploymentAccess

TASK_RUN = "trun_01m80arwk4e7"


def access(folder: Path, *networks: str, **settings: Any) -> DeploymentAccess:
    """What a worker lends: a folder as storage, and these networks besides public addresses."""
    chosen = Settings(dispatch_networks=networks, **settings)
    return DeploymentAccess(chosen, Backends.only(LocalStorage(folder)))


def call(task: Task[..., Any], deployment: DeploymentMeans | None, /, **params: Any) -> CallResult:
    """Call an action with the params of a step."""
    ctx = Context(task_run_id=TASK_RUN, task_id=task.id, tenant="acme", input=params, params=params)
    ctx = replace(ctx, deployment=deployment, make_callback_url=lambda: "http://api/api/callbacks/token")
    return outcome_of(call_to_end(task.fn, bind(task.fn, ctx)))
