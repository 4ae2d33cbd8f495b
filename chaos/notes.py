"""Write and read the notes of tasks: one line when a call begins, one line when it ends.

The file is opened for appending and each line is one write. So a process that is killed right after a write
loses nothing, and lines of several processes are not mixed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from chaos.shifted_clock import right_time
from pipeweave import Context
from pipeweave.settings import environment

VARIABLE = "CHAOS_NOTES"
# The parts of the code that a worker loads, separated by commas.
PARTS = "CHAOS_PARTS"


@dataclass(frozen=True, slots=True)
class Note:
    """One line.

    Args:
        what: `begin`, `returned` or `raised`.
        task_run_id: the id that the task saw (`trun_…`).
        at: the time on the steady clock (s), which all processes share.
        wall: the time since the epoch (s).
        token: the unique result of this call; None in `begin`.
        saw: the outputs of earlier steps that the call received, by step id.
        part: the part of the code that was called.
        parts: those that the worker was told to load.
    """

    what: str
    run_id: str
    task_run_id: str
    task_id: str
    attempt: int
    pid: int
    at: float
    wall: float
    token: str | None = None
    saw: dict[str, Any] = field(default_factory=dict)
    part: str = "common"
    parts: str = "common"


class Notebook:
    """Writes notes."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._parts = environment().get(PARTS, "")

    @contextmanager
    def noted(self, ctx: Context, saw: dict[str, Any], part: str = "common") -> Iterator[str]:
        """Note the call of a task, however it ends; gives the token it is to return. `saw` may be filled
        meanwhile.
        """
        token = f"{os.getpid():x}.{time.monotonic_ns():x}"
        self._write("begin", ctx, part)
        try:
            yield token
        except BaseException:
            self._write("raised", ctx, part)
            raise
        self._write("returned", ctx, part, token, saw)

    def _write(self, what: str, ctx: Context, part: str, token: str | None = None, saw: Any = None) -> None:
        ids = ctx.run_id, ctx.task_run_id, ctx.task_id, ctx.attempt
        now = time.monotonic(), right_time()
        note = Note(what, *ids, os.getpid(), *now, token, saw or {}, part, self._parts)
        os.write(self._file, json.dumps(asdict(note)).encode() + b"\n")


class Reading:
    """Reads the notes as they are written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self.notes: list[Note] = []
        # The call under way by process id.
        self.open: dict[int, Note] = {}

    def catch_up(self) -> list[Note]:
        """Read the new notes and return all notes."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._read)
                whole, _, _ = file.read().rpartition(b"\n")
            if whole:
                self._read += len(whole) + 1
                self._take(Note(**json.loads(line)) for line in whole.split(b"\n"))
        return self.notes

    def _take(self, fresh: Iterable[Note]) -> None:
        for each in fresh:
            self.notes.append(each)
            if each.what == "begin":
                self.open[each.pid] = each
            else:
                self.open.pop(each.pid, None)
