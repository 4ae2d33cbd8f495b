"""When a run counts as quiet: each open step waits, or comes after one that does."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pipeweave.orchestrator.domain.plan import compile_plan
from pipeweave.orchestrator.waits.quiet import is_quiet
from pipeweave.spec import PipelineSpec, StepSpec


@dataclass(frozen=True)
class Row:
    status: str
    has_wait: bool = False
    due_at: str | None = None


# a, b -> c -> d
PLAN = compile_plan(
    PipelineSpec(
        id="p",
        steps=(
            StepSpec("a", "t"),
            StepSpec("b", "t"),
            StepSpec("c", "t", needs=("a", "b")),
            StepSpec("d", "t", needs=("c",)),
        ),
    )
)
WAITS, PENDING = Row("waiting", has_wait=True), Row("pending")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ({1: WAITS, 2: WAITS, 3: PENDING, 4: PENDING}, True),
        ({1: WAITS, 3: PENDING, 4: PENDING}, True),
        ({3: WAITS, 4: PENDING}, True),
        # A predecessor works, is about to, or is a map that waits for its items.
        ({1: WAITS, 2: Row("running"), 3: PENDING, 4: PENDING}, False),
        ({1: WAITS, 2: Row("queued"), 3: PENDING, 4: PENDING}, False),
        ({1: WAITS, 2: Row("pending", due_at="soon"), 3: PENDING, 4: PENDING}, False),
        ({1: WAITS, 2: Row("waiting"), 3: PENDING, 4: PENDING}, False),
        # Closed joins: the message that decides them may be lost, and the tick must see them.
        ({3: PENDING, 4: PENDING}, False),
        ({}, False),
    ],
)
def test_a_run_is_quiet_if_nothing_of_it_can_go_on_by_itself(rows: dict[int, Row], expected: bool) -> None:
    assert is_quiet(PLAN, rows) is expected
