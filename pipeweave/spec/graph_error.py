"""Define GraphError: an error in the graph of a pipeline, or a warning about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class GraphError:
    """An error in a graph, or a warning about it; `steps` names the steps it concerns.

    Errors: NO_ENTRY, TOO_MANY_STEPS, DUPLICATE_STEP, UNKNOWN_STEP, CYCLE (`steps` is the closed path),
    UNKNOWN_TASK, ADAPTER_NOT_FOUND.
    Warnings: DISCONNECTED (`steps` is the first step of each part), DEPTH_OVER_20, CONCURRENCY_LIMIT,
    TIMEOUT_BEYOND_RUN, JOIN_SEES_NO_FAILURE, UNKNOWN_PIPELINE.
    """

    code: str
    message: str
    steps: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, "steps": list(self.steps)}
