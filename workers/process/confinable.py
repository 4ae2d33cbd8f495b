"""Leaves out the tasks that this machine cannot confine, before a worker registers what it has loaded."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from pipeweave.authoring.task_loading import Loaded
from pipeweave.errors import SandboxUnavailable
from pipeweave.workers.boxes import why_none

log = logging.getLogger(__name__)


def confinable(loaded: Loaded, why: Callable[[], str | None] = why_none) -> Loaded:
    """What can be called here: all of it, unless a task has a sandbox and this machine can confine nothing.

    Args:
        why: says why this machine can have no boxes; asked only if a task has a sandbox.
    """
    boxed = [id for id, each in loaded.tasks.items() if each.spec.sandbox is not None]
    if not boxed or (reason := why()) is None:
        return loaded
    names = {"code": SandboxUnavailable.code, "tasks": ", ".join(sorted(boxed)), "reason": reason}
    log.warning("task.not_confinable", extra=names)
    return replace(loaded, tasks={id: each for id, each in loaded.tasks.items() if id not in boxed})
