"""Tasks that fail, hang, or take their process with them, as the run's input says."""

from __future__ import annotations

import os
import resource
import signal
import time
from pathlib import Path
from typing import Any

import orjson
from notes import began, noted

from pipeweave import Context, TaskError, task
from pipeweave.errors import AttemptTimedOut
from pipeweave.orchestrator.engine import Turn


@task
def noop(ctx: Context) -> str | None:
    with noted(ctx):
        return ctx.step_id


@task(retries=3, retry_delay_ms=20, retry_backoff="fixed")
def flaky(fails: int, ctx: Context, code: str = "FLAKY", retryable: bool = True) -> list[Any]:
    """Fail so often, then give what it was told of its attempts."""
    with noted(ctx):
        if ctx.attempt <= fails:
            raise TaskError(
                f"attempt {ctx.attempt}", code=code, retryable=retryable, details={"n": ctx.attempt}
            )
        return list(ctx.previous_attempts)


@task(retries=3, retry_delay_ms=20, retry_on=("BUSY",))
def picky(code: str, ctx: Context) -> int:
    with noted(ctx):
        if ctx.attempt == 1:
            raise TaskError("no", code=code)
        return ctx.attempt


@task(retries=0)
def nap(ctx: Context) -> None:
    with noted(ctx):
        time.sleep(0.05)


# --- taking too long --------------------------------------------------------------------------------------


@task(timeout=0.4, retries=0)
def slow(seconds: float, ctx: Context, note: str = "") -> str:
    """Sleep beyond its time limit; note that it could clean up."""
    try:
        time.sleep(seconds)
    except AttemptTimedOut:
        Path(note).write_text("cleaned up")
        raise
    return "in time"


@task
def careless(ctx: Context) -> int:
    """Leave the alarm of its process as the operating system has it."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    return os.getpid()


@task(timeout=0.4, retries=1, retry_delay_ms=20)
def stubborn(ctx: Context) -> str:
    """Do not stop when told so, the first time."""
    until = time.monotonic() + (60 if ctx.attempt == 1 else 0)
    while time.monotonic() < until:
        try:
            time.sleep(0.05)
        except AttemptTimedOut:
            continue
    return f"attempt {ctx.attempt}"


@task(timeout=4, retries=1, retry_delay_ms=20, heartbeat_interval_ms=250)
def deaf(ctx: Context) -> str:
    """Hold on to the interpreter the first time, so that nothing else of its process gets a turn."""
    if ctx.attempt == 1:
        sum(range(10**11))
    return f"attempt {ctx.attempt}"


@task(heartbeat_interval_ms=250, retries=0)
def patient(seconds: float, ctx: Context) -> str:
    """Take longer than many heartbeat intervals, in one wait."""
    time.sleep(seconds)
    return "done"


# --- dying ------------------------------------------------------------------------------------------------


@task(retries=2, retry_delay_ms=20)
def suicidal(times: int, ctx: Context) -> int:
    """Kill its own process so many times."""
    began(ctx)
    if ctx.attempt <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    return ctx.attempt


@task(retries=2, retry_delay_ms=20)
def deadly_item(number: int, deadly: int, ctx: Context) -> int:
    """One of many small items kills its process, once."""
    began(ctx)
    if number == deadly and ctx.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@task(retries=2, retry_delay_ms=20)
def held_item(number: int, held: int, gate: str, ctx: Context) -> int:
    """One of many small items waits for the test, unless it is tried again."""
    began(ctx)
    if number == held and ctx.attempt == 1:
        Path(gate + ".held").touch()
        while not Path(gate).exists():
            time.sleep(0.01)
    return number


@task(retries=1, retry_delay_ms=20)
def spoiling(how: str, ctx: Context) -> int:
    """Leave the process in a state in which nothing else should run in it."""
    began(ctx)
    if ctx.attempt == 1:
        _SPOIL[how]()
    return os.getpid()


def _replace_json() -> None:
    orjson.dumps = lambda *_, **__: b"null"


def _break_turns() -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("somebody broke it")

    Turn.apply = fail  # type: ignore[method-assign, assignment]


def _leak() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 1000), most))
    while os.dup(0) < 600:
        pass


_SPOIL = {"json": _replace_json, "turns": _break_turns, "descriptors": _leak}


@task(retries=0)
def third_fails(number: int, ctx: Context) -> int:
    began(ctx)
    if number == 2:
        raise ValueError("the third one")
    return number


@task(retries=2, retry_delay_ms=20)
def held_step(gate: str, ctx: Context) -> str | None:
    """The step named in the file waits for the test, the first time."""
    began(ctx)
    held = Path(gate + ".name").read_text()
    if ctx.step_id == held and ctx.attempt == 1:
        Path(gate + ".held").touch()
        while not Path(gate).exists():
            time.sleep(0.01)
    return ctx.step_id


@task(retries=0)
def forking(ctx: Context) -> int:
    """Give the signal that ended a process of its own which was sent a TERM."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, b"!")
        time.sleep(60)
        os._exit(0)
    os.read(reading, 1)  # Python forgets the signals that come while it forks
    os.kill(pid, signal.SIGTERM)
    return os.WTERMSIG(os.waitpid(pid, 0)[1])


@task(retries=0)
def curious(gate: str, ctx: Context) -> dict[str, Any]:
    """Wait for the test, then say and ask things that PostgreSQL has to do with."""
    Path(gate + ".held").touch()
    while not Path(gate).exists():
        time.sleep(0.01)
    ctx.progress(50, "half")
    Path(gate + ".said").touch()
    return dict(ctx.upstream)


@task(retries=0, heartbeat_interval_ms=250)
def tenacious(gate: str, ctx: Context) -> None:
    """Go on until the test says so, whatever happens."""
    began(ctx)
    Path(gate + ".held").touch()
    while not Path(gate).exists():
        try:
            time.sleep(0.01)
        except Exception:
            Path(gate + ".told").touch()
