"""What a call in a warm box costs more than the same call without one.

`python -m benchmarks.boxed_calls` prints the figures: the two kinds of calls alternate in one process, so
that other load disturbs both alike.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figures import percentile, seconds_of
from pipeweave.attempt import Files
from pipeweave.authoring import Context, bind, outcome_of
from pipeweave.sandbox import Sandbox
from pipeweave.sending import Networks
from pipeweave.workers.boxes import Boxes, BoxSpec, why_none

ROUNDS = 500
# At most this many ms more in a warm box.
GOAL_MS = 3.0

INPUTS: Mapping[str, Any] = {"small": {"rows": [1, 2, 3]}, "1 MB": {"rows": list(range(150_000))}}


def count(rows: list[int]) -> int:
    """What is called: it does nothing worth a measure."""
    return len(rows)


def main() -> int:
    """Measure, and print; 1 where this machine can confine nothing."""
    if (reason := why_none()) is not None:
        print(f"not measured: {reason}", file=sys.stderr)
        return 1
    with _boxes() as boxes:
        for name, value in INPUTS.items():
            print(_line(name, *_measured(boxes, value)))
    return 0


@contextmanager
def _boxes() -> Iterator[Boxes]:
    boxes = Boxes(Networks(()))
    try:
        yield boxes
    finally:
        boxes.close()


def _measured(boxes: Boxes, value: Any) -> tuple[list[float], list[float]]:
    """The times of calls (ms): without a box, and in one."""
    root = Path(__file__).resolve().parents[1]
    sandbox = Sandbox(files=["tmp"])
    spec = BoxSpec("bench", "bench", "count", "benchmarks.boxed_calls", "count", (root,), sandbox)
    files: Any = None

    def plain() -> Any:
        return outcome_of(count(**bind(count, Context(input=value)))).output

    def boxed() -> Any:
        context = Context(input=value)
        return boxes.call(spec, context, _no_files(files), 60).output

    boxed()  # it is warm from now on
    pairs = [(_ms(plain), _ms(boxed)) for _ in range(ROUNDS)]
    return [each for each, _ in pairs], [each for _, each in pairs]


def _no_files(means: Any) -> Files:
    return Files(means)


def _ms(work: Callable[[], object]) -> float:
    return 1000 * seconds_of(work)


def _line(name: str, plain: list[float], boxed: list[float]) -> str:
    more = median(boxed) - median(plain)
    said = f"goal: <= {GOAL_MS:g} ms" if name == "small" else ""
    return (
        f"box, input {name:6} {median(plain):8.3f} ms without, {median(boxed):8.3f} ms in a box "
        f"(p95 {percentile(boxed, 95):.3f} ms): {more:+.3f} ms  {said}"
    ).rstrip()


if __name__ == "__main__":
    sys.exit(main())
