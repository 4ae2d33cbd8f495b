"""Defines what an HTTP service reports of the end of an attempt, or of its going on elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

SUCCESS, FAILED, PENDING = "success", "failed", "pending"


@dataclass(frozen=True, slots=True)
class Report:
    """What a service says of the end of an attempt.

    Args:
        status: `success`, `failed` or `pending`.
        output: the result itself; `has_output` tells null from none.
        output_path: where the service stored the result.
        assets: key -> {path, size, type}.
        selected_next: the successors that may run; None for all.
        error, error_code, retryable, details, stack: of a failure.
        suspend: of `pending`: what it waits for, as `read_literal` reads it.
        begun: False: the task was not called, so the attempt is not counted.
    """

    status: str
    output: Any = None
    has_output: bool = False
    output_path: str | None = None
    assets: Mapping[str, Mapping[str, Any]] | None = None
    logs_path: str | None = None
    selected_next: Collection[str] | None = None
    suspend: Mapping[str, Any] | None = None
    error: str | None = None
    error_code: str | None = None
    retryable: bool = True
    begun: bool = True
    details: Any = None
    stack: str | None = None
