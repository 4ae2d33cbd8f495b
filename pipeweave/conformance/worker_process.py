"""A worker that the kit starts itself: `--command "node worker.js"`."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import Mapping

from pipeweave.errors import InvalidInput, StartFailed

STOP_S = 35.0
"""How long a worker may take to end after SIGTERM: the time for running work, and some more."""


class WorkerProcess:
    """One command, started as often as needed, each time in a process group of its own.

    Args:
        command: as in a shell, without its operators.
        environment: of the process.

    Raises:
        InvalidInput: the command has an open quote, or is empty.
    """

    def __init__(self, command: str, environment: Mapping[str, str]) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise InvalidInput(f"--command cannot be read: {error}") from None
        if not self._words:
            raise InvalidInput("--command is empty", hint='write it as --command "node worker.js"')
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it. What it prints goes to standard error.

        Raises:
            StartFailed: there is no such program.
        """
        try:
            self._process = subprocess.Popen(
                self._words,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=2,
                start_new_session=True,
            )
        except OSError as error:
            raise StartFailed(
                f"{self._words[0]!r} cannot be started: {error.strerror}", hint="check --command"
            ) from error

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs."""
        return None if self._process is None else self._process.poll()

    def terminate(self) -> None:
        """Ask it to end."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def wait(self, seconds: float = STOP_S) -> int | None:
        """Wait for its end; None if it goes on."""
        assert self._process is not None
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """End it and what it started."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
