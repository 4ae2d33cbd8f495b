"""Restricts Celery's remote control of a worker to questions.

Whoever can publish to the broker could otherwise stop workers, let them consume other queues, revoke messages
or change time limits. Operators act through PipeWeave, which checks tokens and keeps what it did.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from celery.worker.control import Panel

log = logging.getLogger(__name__)

# What `celery status`, `celery inspect` and Flower ask. `hello` is missing: it also revokes messages.
QUESTIONS = frozenset(
    {
        *("ping", "stats", "report", "conf", "clock"),
        *("registered", "active_queues", "active", "reserved", "scheduled", "revoked", "query_task"),
    }
)

# Flower sends these when it starts and every few seconds, unless it is told not to.
_UNHEARD = frozenset({"enable_events", "disable_events", "heartbeat"})

# What to use for the commands that operators know from Celery.
INSTEAD = {
    "shutdown": "stop a worker with SIGTERM",
    **dict.fromkeys(
        ("pool_grow", "pool_shrink", "autoscale"), "start more workers, or set another --concurrency"
    ),
    "pool_restart": "restart the worker (`pipeweave restart`)",
    **dict.fromkeys(("add_consumer", "cancel_consumer"), "use --queues, or `pipeweave pause TASK`"),
    "rate_limit": "set @task(rate_limit=…)",
    "time_limit": "set @task(timeout=…)",
    **dict.fromkeys(
        ("revoke", "revoke_by_stamped_headers", "terminate"), "cancel the run with `pipeweave cancel RUN`"
    ),
}

_Command = Callable[..., Any]


def restrict_to_questions() -> None:
    """Replace each command that is not a question, also those that the tasks' code registered. Called once
    that code is loaded, in the worker's parent process.
    """
    commands: dict[str, _Command] = Panel.data
    questions = {commands[name] for name in QUESTIONS}
    for name, command in commands.items():
        if name in _UNHEARD:
            commands[name] = _ignore
        elif command not in questions:
            commands[name] = partial(_refuse, name)


def _ignore(_: object, **arguments: object) -> dict[str, str]:
    return {"ok": "PipeWeave's workers send no task events"}


def _refuse(name: str, _: object, **arguments: object) -> dict[str, str]:
    log.warning("control.refused", extra={"command": name})
    instead = INSTEAD.get(name, "use the `pipeweave` command")
    return {"error": f"PipeWeave's workers refuse the command {name!r}; {instead}"}
