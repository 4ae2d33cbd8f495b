"""Gives each run its trace context (W3C Trace Context), without storing one for every run.

The trace id of a run is that of the trigger's `traceparent`; without one it is the run's id, which has 128
bits, too. The id of an attempt's span follows from its task run and its number, so that whoever needs it, on
any machine and at any time, finds the same one.
"""

from __future__ import annotations

import hashlib
import re
from uuid import UUID

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?\Z")
# A version that the standard forbids, and ids that it calls invalid.
_NO_VERSION, _NO_TRACE, _NO_SPAN = "ff", "0" * 32, "0" * 16
# The flag `sampled`. A run without a caller's trace is recorded: its events are stored anyway.
_SAMPLED = "01"


def read(header: str | None) -> str | None:
    """The header `traceparent` of a request, as version 00 writes it; None where it is absent or invalid.

    The standard says that an invalid header is ignored: nobody's run should fail because a proxy wrote it.
    """
    match = None if header is None else _TRACEPARENT.match(header.strip())
    if match is None:
        return None
    version, trace, span, flags, more = match.groups()
    if version == _NO_VERSION or trace == _NO_TRACE or span == _NO_SPAN or (version == "00" and more):
        return None
    return f"00-{trace}-{span}-{flags}"


def trace_id(run_id: UUID, traceparent: str | None) -> str:
    """The trace id of a run: 32 hexadecimal digits.

    Args:
        traceparent: that of its trigger, as `read` gave it.
    """
    return run_id.hex if traceparent is None else traceparent[3:35]


def span_id(task_run_id: UUID, attempt: int) -> str:
    """The span id of an attempt: 16 hexadecimal digits."""
    return hashlib.sha256(f"{task_run_id.hex}:{attempt}".encode()).hexdigest()[:16]


def wait_span_id(task_run_id: UUID, attempt: int) -> str:
    """The span id of the wait of an attempt that has suspended itself, whose span lies above: 16 hexadecimal
    digits.
    """
    return hashlib.sha256(f"wait:{task_run_id.hex}:{attempt}".encode()).hexdigest()[:16]


def run_span_id(run_id: UUID, end: int | None = None) -> str:
    """The span id of a run: 16 hexadecimal digits.

    Args:
        end: the number of the event that ended it again, after it was continued.
    """
    text = run_id.hex if end is None else f"{run_id.hex}:{end}"
    return hashlib.sha256(f"run:{text}".encode()).hexdigest()[:16]


def traceparent_of(run_id: UUID, traceparent: str | None, task_run_id: UUID, attempt: int) -> str:
    """The header `traceparent` of a call that an attempt makes."""
    flags = _SAMPLED if traceparent is None else traceparent[-2:]
    return f"00-{trace_id(run_id, traceparent)}-{span_id(task_run_id, attempt)}-{flags}"
