"""Define supervised processes, and read and write the list of running processes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pipeweave.up.launch import Launch

State = Literal["starting", "running", "restarting", "stopping", "stopped"]


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process to keep running.

    Args:
        name: unique; also the name of its log.
        launch: makes its Launch; called for every start.
        is_ready: true if the process works now; called in a separate thread.
        is_pid_ready: the same, given the process id.
        stage: processes of a higher stage are stopped first.
        stop_signal: the signal that asks it to end.
        grace_s: seconds it gets to end before it is killed.
        is_watching_us: true if its standard input is held open until the supervisor ends.
        is_replaceable: true if two may run side by side: a restart starts the new process first, and stops
            the old one when the new one is ready.
        about: what it runs, for people.
    """

    name: str
    launch: Callable[[], Launch]
    is_ready: Callable[[], bool] = lambda: True
    is_pid_ready: Callable[[int], bool] = lambda pid: True
    stage: int = 0
    stop_signal: int = signal.SIGTERM
    grace_s: float = 3.0
    is_watching_us: bool = False
    is_replaceable: bool = False
    about: str | None = None


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """The state of one process.

    `pid` and `started_at` (seconds since 1970) are None while it does not run. `last_exit` says how and with
    which last words the process ended before, unless it was asked to.
    """

    name: str
    state: State
    pid: int | None
    born: str | None
    started_at: float | None
    restarts: int
    stage: int
    stop_signal: int
    last_exit: str | None = None
    about: str | None = None

    def to_json(self, now: datetime) -> dict[str, Any]:
        """The row as `pipeweave ps` shows it; uptime in seconds."""
        uptime = None if self.started_at is None else round(max(now.timestamp() - self.started_at, 0), 1)
        started = (
            None
            if self.started_at is None
            else datetime.fromtimestamp(self.started_at, UTC).isoformat().replace("+00:00", "Z")
        )
        return {
            "name": self.name,
            "pid": self.pid,
            "state": self.state,
            "uptime": uptime,
            "restarts": self.restarts,
            "startedAt": started,
            "lastExit": self.last_exit,
            "about": self.about,
        }


def write_rows(file: Path, rows: Sequence[ProcessRow]) -> None:
    """Replace the file atomically: a reader sees either the old rows or the new rows."""
    shown = [_to_file(row) for row in rows]
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(shown))
    os.replace(fresh, file)


def read_rows(file: Path) -> list[ProcessRow]:
    """Read the rows; empty if there is no file."""
    try:
        shown = json.loads(file.read_text())
    except (OSError, ValueError):
        return []
    return [_from_file(each) for each in shown]


# `leftovers` reads these names, too, but does not import this module.
_FILE_NAMES = {"started_at": "startedAt", "stop_signal": "stopSignal", "last_exit": "lastExit"}


def _to_file(row: ProcessRow) -> dict[str, Any]:
    return {_FILE_NAMES.get(name, name): value for name, value in asdict(row).items()}


def _from_file(shown: dict[str, Any]) -> ProcessRow:
    plain = {to: name for name, to in _FILE_NAMES.items()}
    return ProcessRow(**{plain.get(name, name): value for name, value in shown.items()})
