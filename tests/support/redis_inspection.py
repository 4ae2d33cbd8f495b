"""A look into the broker itself: what lies there after something was published."""

from __future__ import annotations

import base64
import json
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.outbox import Outgoing, Released
from pipeweave.orchestrator.messaging.publisher import Publisher

QUEUE = "pipeweave.canvas-tests.python"


def redis(publisher: Publisher) -> Any:
    """A client of the publisher's broker."""
    backend: Any = publisher.app.backend
    return backend.client


def run() -> UUID:
    """The id of a run that need not exist."""
    return ids.new_id()


def released(run_id: UUID, count: int, priority: int = 100, joins: tuple[int, ...] = ()) -> list[Outgoing]:
    """As many released task runs of a run."""
    return [Released(run_id, number, 1, "t", QUEUE, priority, joins) for number in range(1, count + 1)]


def messages(publisher: Publisher) -> list[tuple[str, list[Any]]]:
    """Task name and arguments of each message, the way a worker would take them: best level first."""
    client = redis(publisher)
    found = []
    for suffix in ("", "\x06\x163", "\x06\x166", "\x06\x169"):
        for raw in reversed(client.lrange(QUEUE + suffix, 0, -1)):
            message = json.loads(raw)
            arguments = json.loads(base64.b64decode(message["body"]))[0]
            found.append((message["headers"]["task"], arguments))
    return found
