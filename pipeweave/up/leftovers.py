"""End processes whose supervisor is gone.

Run as a script, this module is the watchdog: it waits for the end of its standard input, which the supervisor
keeps open while it lives, and then ends all processes that are still listed in `processes.json`. It imports
only the standard library, so that the waiting process stays small.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# Seconds that a process gets to end by itself, and the polling interval.
_GRACE_S = 5.0
_POLL_S = 0.05
# Index of a process's start time in /proc/PID/stat, counted from its state.
_STARTTIME = 19


def birth(pid: int) -> str | None:
    """The start time of a process, in the form that this system reports; None if it has ended.

    The start time tells our process from a later process with the same id.
    """
    if not os.path.isdir("/proc/self"):
        asked = ["ps", "-o", "lstart=", "-p", str(pid)]
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() or None
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[_STARTTIME]


def end_group(pid: int) -> None:
    """Kill the remaining processes of the group that this process leads."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def sweep(written_down: Path, also_stale: Path) -> list[str]:
    """End the processes listed in this file, the highest stage first, and return their names.

    Then the stale files are deleted, the list last: once the list is gone, nothing else is deleted any more.

    Args:
        written_down: the list of processes (`processes.json`).
        also_stale: a file that is deleted, too, if processes were ended (`connection.json`).
    """
    try:
        rows: list[dict[str, Any]] = json.loads(written_down.read_text())
    except (OSError, ValueError):
        return []
    alive = [row for row in rows if row["pid"] and birth(row["pid"]) == row["born"]]
    alive = [row for row in alive if row["pid"] != os.getpid()]
    for stage in sorted({row["stage"] for row in alive}, reverse=True):
        _end([row for row in alive if row["stage"] == stage])
    if alive:
        also_stale.unlink(missing_ok=True)
    written_down.unlink(missing_ok=True)
    return [row["name"] for row in alive]


def _end(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(row["pid"], row["stopSignal"])
    deadline = time.monotonic() + _GRACE_S
    while any(birth(row["pid"]) == row["born"] for row in rows) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    for row in rows:
        end_group(row["pid"])


def watch(written_down: Path, also_stale: Path) -> None:
    """Wait until the supervisor ends, then end the processes that it left behind."""
    for each in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    sweep(written_down, also_stale)


if __name__ == "__main__":
    watch(Path(sys.argv[1]), Path(sys.argv[2]))
