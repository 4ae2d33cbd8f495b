"""Read the steps that run a pipeline or a body: once, or in rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pipeweave.field_errors import FieldErrors
from pipeweave.spec.child_steps import MAX_ROUNDS, Body, ChildPipeline, LoopStep
from pipeweave.spec.document_durations import read_duration
from pipeweave.spec.document_expressions import ITEM_ROOTS, ExpressionReader
from pipeweave.spec.document_rules import read_flag
from pipeweave.spec.references import json_type

# What the steps of a body may name, by what the body is of.
IN_LOOP, IN_MAP = frozenset({"loop"}), ITEM_ROOTS
_PIPELINE_KEYS = ("id", "version")
_LOOP_KEYS = ("pipeline", "steps", "maxIterations", "until", "delay", "delayMs", "collect")


@dataclass(frozen=True, slots=True)
class ChildReader:
    """Reads the steps of one document that run pipelines.

    Args:
        mistakes: where mistakes go; it checks names, too.
        expressions: reads the expressions in them.
        body: reads the steps of a body at a path, which see these further roots.
    """

    mistakes: FieldErrors
    expressions: ExpressionReader
    body: Callable[[Any, str, frozenset[str]], Body]

    def pipeline(self, written: Any, path: str) -> ChildPipeline:
        """Read `pipeline`: an id, or an object of id and version."""
        if isinstance(written, str):
            return ChildPipeline(self.mistakes.name(written, path))
        if not isinstance(written, Mapping):
            problem = (
                "is required"
                if written is None
                else f"must be the id of a pipeline, not {json_type(written)}"
            )
            self.mistakes.wrong(path, problem, "missing" if written is None else "invalid_type", "string")
            return ChildPipeline("")
        self.mistakes.unknown_keys(written, _PIPELINE_KEYS, path)
        version = written.get("version")
        if version is not None and not _is_count(version, 2**31 - 1):
            self.mistakes.wrong(
                f"{path}.version", f"must be a number of a version, not {version!r}"[:500], "invalid_value"
            )
            version = None
        if written.get("id") is None:
            self.mistakes.wrong(f"{path}.id", "is required", "missing")
            return ChildPipeline("", version)
        return ChildPipeline(self.mistakes.name(written["id"], f"{path}.id"), version)

    def loop(self, written: Any, path: str) -> LoopStep:
        """Read `loop`."""
        if not isinstance(written, Mapping):
            problem = (
                f"must be an object with a pipeline or steps and maxIterations, not {json_type(written)}"
            )
            self.mistakes.wrong(path, problem, "invalid_type", "object")
            return LoopStep(ChildPipeline(""), 1)
        self.mistakes.unknown_keys(written, _LOOP_KEYS, path)
        first = len(self.expressions.written)
        until = self.expressions.condition(written.get("until"), f"{path}.until")
        self.expressions.give_loop(first)
        return LoopStep(
            self._body_of_loop(written, path),
            self._rounds(written.get("maxIterations"), f"{path}.maxIterations"),
            until,
            read_duration(self.mistakes, written, "delay", path) or 0,
            read_flag(self.mistakes, written, "collect", path),
        )

    def _body_of_loop(self, written: Mapping[str, Any], path: str) -> ChildPipeline | Body:
        if written.get("steps") is None:
            return self.pipeline(written.get("pipeline"), f"{path}.pipeline")
        if written.get("pipeline") is not None:
            problem = "cannot be given together with `steps`: a round runs one of them"
            self.mistakes.wrong(f"{path}.pipeline", problem, "conflict")
        return self.body(written["steps"], f"{path}.steps", IN_LOOP)

    def _rounds(self, written: Any, path: str) -> int:
        if _is_count(written, MAX_ROUNDS):
            return int(written)
        expected = f"a whole number from 1 to {MAX_ROUNDS:,}"
        problem = (
            "is required: a loop must end" if written is None else f"must be {expected}, not {written!r}"
        )
        self.mistakes.wrong(path, problem[:500], "missing" if written is None else "invalid_value", expected)
        return 1


def _is_count(written: Any, most: int) -> bool:
    return isinstance(written, int) and not isinstance(written, bool) and 1 <= written <= most
