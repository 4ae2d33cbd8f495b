"""A worker of a user's own Celery app, and Celery's command line, as a user starts them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.servers import STOP_DEADLINE_S, wait_until

_CELERY = (sys.executable, "-m", "celery")


@contextmanager
def celery_worker(
    app: str, folder: Path, log: Path, variables: Mapping[str, str], *, pool: str = "solo"
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Celery worker of one process for the block, once it takes messages.

    Args:
        app: module and app, as `celery -A` takes them.
        folder: where the module lies.
        log: the file that gets what the worker says.
        variables: further variables of its environment.
        pool: `prefork` for one whose process may die.
    """
    argv = [
        *_CELERY,
        "-A",
        app,
        "worker",
        "--pool",
        pool,
        "--concurrency",
        "1",
        "--loglevel",
        "info",
        "--hostname",
        "legacy@host",
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv, env=_environment(variables), cwd=folder, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        wait_until(lambda: process.poll() is not None or " ready." in log.read_text())
        assert process.poll() is None, log.read_text()
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def celery(app: str, *command: str, folder: Path, variables: Mapping[str, str]) -> str:
    """What `celery -A app …` says, however it ends."""
    done = subprocess.run(
        [*_CELERY, "-A", app, *command],
        env=_environment(variables),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=STOP_DEADLINE_S,
        check=False,
    )
    return done.stdout + done.stderr


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **variables}
