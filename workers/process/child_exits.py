"""Knows how child processes ended: by which signal, or with which exit code."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

# Exit codes of children that the pool has waited for, the oldest first; a negative one is a signal.
_noted: dict[int, int] = {}
MOST_NOTED = 1_000

# The pool may have waited for a child a moment before it notes the exit code (s).
NOTED_WITHIN_S = 0.2


def record(pid: int, code: int) -> None:
    """Note the exit code of a child; the number of a signal is negative."""
    _noted[pid] = code
    while len(_noted) > MOST_NOTED:
        _noted.pop(next(iter(_noted)))


def describe(pid: int) -> str:
    """Say how a child ended: `its process (4711) was killed by signal 9 (SIGKILL), as …`.

    Called in the parent, once the child is dead.
    """
    code = _exit_code(pid)
    if code is None:
        return f"its process ({pid}) died"
    if code >= 0:
        return f"its process ({pid}) exited with code {code}"
    if -code == signal.SIGKILL:
        return (
            f"its process ({pid}) was killed by signal 9 (SIGKILL), as the kernel does when memory runs out"
        )
    return f"its process ({pid}) was killed by signal {-code}{_name(-code)}"


def _name(number: int) -> str:
    try:
        return f" ({signal.Signals(number).name})"
    except ValueError:
        return ""


def _exit_code(pid: int) -> int | None:
    until = time.monotonic() + NOTED_WITHIN_S
    while True:
        code = _noted.pop(pid, None)
        if code is None:
            code = _of_unwaited(pid)
        if code is not None or time.monotonic() >= until:
            return code
        time.sleep(0.005)


def _of_unwaited(pid: int) -> int | None:
    """The exit code of a child that nobody has waited for yet; it can still be waited for."""
    with suppress(OSError):
        state = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if state is not None and state.si_pid:
            return state.si_status if state.si_code == os.CLD_EXITED else -state.si_status
    return None
