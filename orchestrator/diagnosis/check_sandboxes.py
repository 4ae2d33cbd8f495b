"""Doctor's check of sandboxes: whether this machine can confine the calls of tasks that have one."""

from __future__ import annotations

from collections.abc import Callable

from pipeweave.box import confine
from pipeweave.orchestrator.diagnosis.doctor import Check, Verdict, fine, warning
from pipeweave.settings import Settings


def confines(_: Settings, reason_against: Callable[[], str | None] = confine.reason_against) -> Verdict:
    """The kernel here has what a sandbox needs. Workers on other machines tell it in their logs."""
    if (reason := reason_against()) is None:
        return fine("calls can be confined on this machine")
    return warning(
        f"calls cannot be confined on this machine: {reason}",
        "a worker here leaves out tasks with a sandbox; docs/sandbox.md lists what is needed",
    )


CHECK = Check("sandboxes", confines)
