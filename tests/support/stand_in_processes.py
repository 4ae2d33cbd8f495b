"""A supervisor with small stand-in commands, in a thread of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

from pipeweave.up.launch import Launch
from pipeweave.up.output import Console
from pipeweave.up.processes import ProcessRow, ProcessSpec, write_rows
from pipeweave.up.supervisor import Supervisor

SLEEP = "exec sleep 600"


def shell(name: str, script: str, **given: object) -> ProcessSpec:
    launch = Launch(("/bin/sh", "-c", script), {"PATH": os.defpath})
    return ProcessSpec(name, lambda: launch, **given)  # type: ignore[arg-type]


class Stage:
    """A supervisor in a thread of its own, and what it wrote down."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.console = StringIO()
        self.rows: dict[str, ProcessRow] = {}
        # All rows: a process and its successor have the same name.
        self.listed: list[ProcessRow] = []
        self.supervisor = Supervisor(folder, Console(self.console), self._record)
        self._thread: threading.Thread | None = None

    def _record(self, rows: Sequence[ProcessRow]) -> None:
        self.listed = list(rows)
        self.rows = {row.name: row for row in reversed(rows)}
        write_rows(self.folder / "processes.json", rows)

    def start(self, *specs: ProcessSpec) -> None:
        for spec in specs:
            self.supervisor.start(spec)
        self.supervisor.wait_ready([spec.name for spec in specs], 120)

    def watch(self) -> None:
        self._thread = threading.Thread(target=self.supervisor.watch)
        self._thread.start()

    def stop(self) -> None:
        if self._thread:
            self.supervisor.request_stop()
            self._thread.join(60)
        self.supervisor.stop()

    def pid(self, name: str) -> int:
        pid = self.rows[name].pid
        assert pid
        return pid
