"""What a person may choose about a check of a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Trial:
    """A task that a check calls, and its input.

    Args:
        task_id: None for the first registered task.
    """

    task_id: str | None = None
    input: Any = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """The choices of one session.

    Args:
        url: where the worker is; None for the base URL that it registers.
        task: what most checks call; it should complete, and soon.
        slow_task: one that runs for more than two of its heartbeat intervals; None to skip its checks.
        failing_task: one that fails; None to skip its check.
        pending_task: one that suspends itself; None to skip its check.
        patience_s: how long a report may take.
        quiet_s: how long the kit looks whether something comes that should not.
        wait_s: how long it waits for a registration.
        only: names of checks; empty for all.
        skip: names of checks to leave out.
        environment: for a command that the kit starts.
    """

    url: str | None = None
    task: Trial = field(default_factory=Trial)
    slow_task: Trial | None = None
    failing_task: Trial | None = None
    pending_task: Trial | None = None
    listen: tuple[str, int] = ("127.0.0.1", 0)
    public_url: str | None = None
    command: str | None = None
    storage: str | None = None
    secret: str = ""
    patience_s: float = 15.0
    quiet_s: float = 1.5
    wait_s: float = 60.0
    only: frozenset[str] = frozenset()
    skip: frozenset[str] = frozenset()
    environment: Mapping[str, str] = field(default_factory=dict)
