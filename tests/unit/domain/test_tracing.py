"""Trace contexts: which headers are taken, and the ids that runs and attempts have without one."""

from __future__ import annotations

import re
from uuid import UUID

import pytest

from pipeweave import ids
from pipeweave.orchestrator.domain import tracing

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GIVEN = f"00-{TRACE}-{SPAN}-00"
RUN = UUID("0192aaaa-0000-7000-8000-000001000000")
STEP = ids.task_run_id(RUN, 1)


@pytest.mark.parametrize(
    "header", [GIVEN, f" {GIVEN} ", f"cc-{TRACE}-{SPAN}-00", f"cc-{TRACE}-{SPAN}-00-what-the-future-adds"]
)
def test_a_trace_context_is_read_as_version_00_writes_it(header: str) -> None:
    assert tracing.read(header) == GIVEN


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "00",
        GIVEN.upper(),
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE[:-1]}g-{SPAN}-01",
    ],
)
def test_an_invalid_trace_context_is_none(header: str | None) -> None:
    assert tracing.read(header) is None


def test_a_run_belongs_to_the_trace_of_its_trigger_else_to_its_own() -> None:
    assert tracing.trace_id(RUN, GIVEN) == TRACE
    assert tracing.trace_id(RUN, None) == RUN.hex


def test_every_attempt_has_a_span_of_its_own_in_the_trace_of_its_run() -> None:
    attempts = [(STEP, 1), (STEP, 2), (ids.task_run_id(RUN, 2), 1)]
    spans = {tracing.span_id(*each) for each in attempts}
    assert len(spans) == 3
    assert all(re.fullmatch(r"[0-9a-f]{16}", each) for each in spans)
    assert tracing.span_id(STEP, 1) == tracing.span_id(STEP, 1)


def test_the_call_of_an_attempt_keeps_the_flags_that_its_trigger_came_with() -> None:
    span = tracing.span_id(STEP, 1)
    assert tracing.traceparent_of(RUN, GIVEN, STEP, 1) == f"00-{TRACE}-{span}-00"
    assert tracing.traceparent_of(RUN, None, STEP, 1) == f"00-{RUN.hex}-{span}-01"
    assert tracing.read(tracing.traceparent_of(RUN, None, STEP, 1)) is not None
