"""The table of loops: what beat and an embedded orchestrator run. A serverless deployment has none of them:
its requests run the chores of the tick (orchestrator/recovery/chores.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from types import TracebackType

from pipeweave.orchestrator.deployment import Deployment
from pipeweave.workers.loops import enqueued, retention, ticking, traces
from pipeweave.workers.loops.loop import Loop, LoopSpec

TICK = "tick"

LOOPS = (
    LoopSpec(TICK, ticking.turns, again_after_s=1.0),
    LoopSpec("enqueued", enqueued.turns, again_after_s=1.0, connections=1),
    LoopSpec("traces", traces.turns, again_after_s=5.0, connections=1),
    # Its first turn leaves the start of a deployment alone. One connection keeps its lease.
    LoopSpec(
        "retention",
        retention.turns,
        again_after_s=retention.AGAIN_AFTER_S,
        first_after_s=60.0,
        connections=2,
    ),
)

# Turns that are under way may take so long (s) together; stopping does not wait longer for them.
STOP_WITHIN_S = 10.0


class Loops:
    """The loops that the settings of a deployment ask for, from `start` to `stop`, or during a block.

    Args:
        ticked: called after each tick that did not fail.

    Raises:
        MissingExtra: spans are to be sent, and the packages of the extra `otel` are not installed.
    """

    def __init__(
        self,
        deployment: Deployment,
        ticked: Callable[[], None] = lambda: None,
        specs: Iterable[LoopSpec] = LOOPS,
    ) -> None:
        self._loops = [
            Loop(each, deployment, ticked if each.name == TICK else lambda: None) for each in specs
        ]

    def start(self) -> None:
        """Begin all of them."""
        for each in self._loops:
            each.start()

    def stop(self) -> None:
        """End all of them; wait for turns that are under way, at most STOP_WITHIN_S."""
        until = time.monotonic() + STOP_WITHIN_S
        for each in self._loops:
            each.end()
        for each in self._loops:
            each.wait(max(0.0, until - time.monotonic()))

    def __enter__(self) -> None:
        self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
