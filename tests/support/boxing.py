"""Boxes for tests: each calls a function of `boxed_code`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeweave.attempt import Files, StoredFile
from pipeweave.authoring import Context
from pipeweave.sandbox import Sandbox
from pipeweave.sending import Networks
from pipeweave.workers.boxes import Boxes, BoxSpec, why_none
from pipeweave.workers.boxes.boxes import KEPT
from support.servers import WAIT_DEADLINE_S

HERE = Path(__file__).resolve().parent
TMP = Sandbox(memory="256M", cpu="20s", files=["tmp"])


def skip_without_boxes(why_none: Callable[[], str | None] = why_none) -> None:
    """Skip what takes a box, with the reason, on a machine that can confine no process.

    Args:
        why_none: asks as a worker does before it loads tasks, and `doctor` before it.
    """
    if (reason := why_none()) is not None:
        pytest.skip(f"no process can be confined here: {reason}")


class NoFiles:
    """The means of an attempt without stored files."""

    def asset(self, key: str) -> StoredFile | None:
        return None

    def uploaded(self, upload_id: str) -> StoredFile | None:
        return None

    def read(self, file: StoredFile) -> Any:
        raise AssertionError(file)


def spec_of(function: str = "run", sandbox: Sandbox = TMP, **changes: Any) -> BoxSpec:
    """The spec of a function of `boxed_code`."""
    spec = BoxSpec("tenant", "code", function, "boxed_code", function, (HERE,), sandbox)
    return replace(spec, **changes)


@contextmanager
def boxes_of(*networks: str, kept: int = KEPT) -> Iterator[Boxes]:
    """Boxes that end with the block."""
    boxes = Boxes(Networks(networks), kept)
    try:
        yield boxes
    finally:
        boxes.close()


def call(boxes: Boxes, spec: BoxSpec, sent: Any, *, seconds: float = WAIT_DEADLINE_S, **members: Any) -> Any:
    """Call a function in its box; returns its output."""
    files = Files(NoFiles())
    context = Context(task_id=spec.task_id, run_id="prun_1", input=sent, files=files, **members)
    try:
        return boxes.call(spec, context, files, seconds).output
    finally:
        files.close()
