"""Where handlers note that they were called: a line of JSON per call, appended at once."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pipeweave import Context

_file = os.open(os.environ["PIPEWEAVE_TEST_CALLS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def began(ctx: Context) -> None:
    """Note a call when it begins: its end may never come."""
    now = time.monotonic()
    _write(ctx, began=now, ended=now, seen=ctx.attempt)


@contextmanager
def noted(ctx: Context, seen: Any = None) -> Iterator[None]:
    """Note the call when the block ends, however it ends."""
    began = time.monotonic()
    try:
        yield
    finally:
        _write(ctx, began=began, ended=time.monotonic(), seen=seen)


def _write(ctx: Context, *, began: float, ended: float, seen: Any) -> None:
    call = {
        "run_id": ctx.run_id,
        "step_id": ctx.step_id,
        "map_index": ctx.map_index,
        "began": began,
        "ended": ended,
        "pid": os.getpid(),
        "seen": seen,
    }
    # One write of a short line to a file opened for appending is not torn apart by others.
    os.write(_file, json.dumps(call).encode() + b"\n")
