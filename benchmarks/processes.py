"""Start real processes for the benchmarks and stop them at the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.systems import BenchmarkFailed
from pipeweave.settings import environment
from pipeweave.up.launch import Launch, spawn
from pipeweave.up.ports import LOOPBACK

ROOT = Path(__file__).parents[1]
READY_S = 120.0
STOP_S = 15.0
HTTP_THREADS = 8

# Variables that a program needs; the user's own settings must not change a figure.
_PLAIN = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")


def python(*arguments: str, variables: Mapping[str, str]) -> Launch:
    """A Python program of this repository."""
    plain = {name: value for name, value in environment().items() if name in _PLAIN}
    return Launch((sys.executable, "-m", *arguments), {**plain, **variables}, cwd=ROOT)


def front(port: int, application: str, *options: str, variables: Mapping[str, str]) -> Launch:
    """A Flask application under gunicorn, as users run one.

    Args:
        application: as gunicorn names it, `module:function()`.
        options: further ones of gunicorn.
    """
    threads = ("--worker-class", "gthread", "--threads", str(HTTP_THREADS), "--no-control-socket")
    bind = ("--bind", f"{LOOPBACK}:{port}")
    return python("gunicorn", *threads, *options, *bind, application, variables=variables)


@contextmanager
def running(
    launch: Launch, log: Path, is_ready: Callable[[], bool], stop_signal: int = signal.SIGTERM
) -> Iterator[int]:
    """Run a process for the block, wait until it is ready, and yield its process id; then end its group.

    Raises:
        BenchmarkFailed: it ended, or was not ready within READY_S.
    """
    with log.open("ab") as output:
        process = spawn(launch, output)
    try:
        until = time.monotonic() + READY_S
        while not is_ready():
            if process.poll() is not None or time.monotonic() > until:
                said = log.read_text(errors="replace")[-2000:]
                raise BenchmarkFailed(f"{log.stem} did not get ready: {said}")
            time.sleep(0.05)
        yield process.pid
    finally:
        _stop(process, stop_signal)


def _stop(process: subprocess.Popen[bytes], stop_signal: int) -> None:
    if process.poll() is None:
        process.send_signal(stop_signal)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        # `spawn` gave it a session of its own, so the group has only its children.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
