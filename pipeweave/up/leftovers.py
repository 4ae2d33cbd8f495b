"""Ending processes whose supervisor is gone.

Started as a script it is the watchdog: it waits for the end of its standard input, which the supervisor holds
open while it lives, and then ends everything that is still written down. It imports the standard library
alone, to cost next to nothing while it waits.
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

# Seconds a process gets to end on its own, and between two looks.
_GRACE_S = 5.0
_LOOK_S = 0.05
# Where a process's starting time is in /proc/PID/stat, counted from its state.
_STARTTIME = 19


def birth(pid: int) -> str | None:
    """When the process began, in whatever form this system says it; None when it runs no more.

    With it a process id that was given out again is not mistaken for ours.
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
    """Kill whatever is left of the process group that this process led."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def sweep(written_down: Path, also_stale: Path) -> list[str]:
    """End the processes written down in this file, the highest stage first, and return their names.

    Removes what is stale then, this file last: whoever finds it gone will find nothing else removed later.
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
        time.sleep(_LOOK_S)
    for row in rows:
        end_group(row["pid"])


def watch(written_down: Path, also_stale: Path) -> None:
    """Wait for the supervisor's end, then clean up after it, should that still be needed."""
    for each in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    sweep(written_down, also_stale)


if __name__ == "__main__":
    watch(Path(sys.argv[1]), Path(sys.argv[2]))
