"""List the processes of a running stack and stop it, from another process."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from pipeweave.errors import Unavailable
from pipeweave.up import leftovers
from pipeweave.up.folder import DataFolder
from pipeweave.up.processes import ProcessRow, read_rows

# The supervisor's own time limits add up to 28 s; after this time it is taken for stuck.
STOP_DEADLINE_S = 35.0
_POLL_S = 0.05


def processes(data_dir: Path) -> list[ProcessRow] | None:
    """List the processes of the stack on this folder; None if no stack runs there."""
    folder = DataFolder(data_dir)
    return None if folder.holder() is None else read_rows(folder.processes)


def stop(data_dir: Path) -> list[str] | None:
    """Stop the stack on this folder and return the names of its processes; None if no stack ran.

    A supervisor that does not end in time is killed together with its processes.

    Raises:
        Unavailable: the stack belongs to another user.
    """
    folder = DataFolder(data_dir)
    holder = folder.holder()
    if holder is None:
        return leftovers.sweep(folder.processes, folder.connection) or None
    born = leftovers.birth(holder)
    # While a worker is replaced, two processes have its name.
    names = list(dict.fromkeys(row.name for row in read_rows(folder.processes)))
    try:
        os.kill(holder, signal.SIGTERM)
    except PermissionError as error:
        raise Unavailable(
            f"the stack in {folder.root} belongs to another user", hint="run the command as that user"
        ) from error
    except ProcessLookupError:
        pass
    if not _has_ended(holder, born):
        with contextlib.suppress(ProcessLookupError):
            os.kill(holder, signal.SIGKILL)
        _has_ended(holder, born)
        leftovers.sweep(folder.processes, folder.connection)
    return names


def _has_ended(pid: int, born: str | None) -> bool:
    """True if the process ends in time. The lock cannot tell: the supervisor releases it before it ends."""
    deadline = time.monotonic() + STOP_DEADLINE_S
    while born and leftovers.birth(pid) == born:
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True
