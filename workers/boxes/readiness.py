"""Asks whether this machine can confine a process, by confining one."""

from __future__ import annotations

from collections.abc import Callable

from pipeweave.box import confine
from pipeweave.errors import SandboxUnavailable
from pipeweave.sandbox import Sandbox
from pipeweave.workers.boxes.box import BoxProcess
from pipeweave.workers.boxes.box_spec import BoxSpec

STARTED_WITHIN_S = 30.0
"""A box that does not confine itself in so many seconds never will."""


def why_none(reason_against: Callable[[], str | None] = confine.reason_against) -> str | None:
    """Why this machine can have no boxes; None if it can: one was just confined here.

    Args:
        reason_against: what the kernel is asked first.
    """
    if (reason := reason_against()) is not None:
        return reason
    nothing = BoxSpec("", "", "", "pipeweave", "task", (), Sandbox(files=["tmp"]))
    try:
        BoxProcess(nothing).close()
    except SandboxUnavailable as error:
        return error.detail
    return None
