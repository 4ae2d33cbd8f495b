"""A worker that a command starts for itself, and that ends with it."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from types import TracebackType

from pipeweave.errors import StartFailed
from pipeweave.settings import Settings, environment

# A worker that ends gets GRACE_S for calls under way, and is killed after END_S (s).
GRACE_S, END_S = 8.0, 20.0
_POLL_S = 0.05
# The option of Linux's prctl for the signal that a process gets when its parent ends.
_PR_SET_PDEATHSIG = 1


class OwnWorker:
    """Runs `pipeweave worker` beside the block, and stops it at its end: it drains, and loses no attempt.

    Args:
        settings: of the deployment.
        arguments: of the command.

    Raises:
        StartFailed: on entering: the worker ended before it was ready. It has said why on stderr.
    """

    def __init__(self, settings: Settings, arguments: Sequence[str]) -> None:
        self._settings = settings
        self._argv = (
            sys.executable,
            "-P",
            "-m",
            "pipeweave.cli",
            "worker",
            *arguments,
            "--grace",
            f"{GRACE_S:g}",
        )
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> OwnWorker:
        # Its lines would hide those of the run: unless somebody wants them, only warnings and errors.
        level = {} if "log_level" in self._settings.named else {"LOG_LEVEL": "minimal"}
        self._process = subprocess.Popen(
            self._argv,
            env={**environment(), **level},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            # Ctrl-C is for the command alone, which then stops it.
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        try:
            self._await_readiness(self._process)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _await_readiness(self, process: subprocess.Popen[bytes]) -> None:
        from pipeweave.orchestrator.registry import worker_processes

        assert self._settings.database_url
        while not worker_processes.is_alive_at(self._settings.database_url, process.pid):
            if process.poll() is not None:
                raise StartFailed("the worker of this command did not start", hint="it has said why above")
            time.sleep(_POLL_S)

    def _stop(self) -> None:
        assert self._process
        self._process.terminate()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _end_with_parent() -> None:
    """Let the worker be told to stop when the command is killed, where the kernel can do that."""
    if prctl := getattr(ctypes.CDLL(None), "prctl", None):
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
