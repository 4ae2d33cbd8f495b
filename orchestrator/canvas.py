"""Outgoing messages as Celery understands them; the only module that knows chords.

A message is written by hand in Celery's task protocol 2 and sent through kombu's batch: about 40 µs instead
of 420 µs (docs/celery.md). The chord is late-bound (docs/celery.md): its group id is its join's task run, its
size is set before anything is published, and a part is counted by whoever made it final, after the commit.
The last part sends the body, a message that asks PostgreSQL whether the join may go. So a part counted
twice, early or never is harmless.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any
from uuid import UUID

from celery import Celery
from celery.app.task import Context

from pipeweave import ids
from pipeweave.orchestrator.messages import RunMessage, post
from pipeweave.orchestrator.outbox import JoinCheck, Outgoing, Part

log = logging.getLogger(__name__)

RUN_TASK = "pipeweave.run"
JOIN_TASK = "pipeweave.join"

# Redis has four levels, 0 first. A check releases others' work, so it never waits behind steps.
CHECK_LEVEL = 0


def level(priority: int) -> int:
    """The Redis level of a task run's priority (lower runs first, 100 is the default)."""
    if priority < 50:
        return 0
    if priority < 100:
        return 3
    return 6 if priority < 150 else 9


class Canvas:
    """Sends what transactions put in their outbox."""

    def __init__(self, app: Celery) -> None:
        self.app = app

    def publish(self, outbox: Sequence[Outgoing]) -> None:
        """Send an outbox: chord sizes, then messages in one batch, then the parts that are already done."""
        posting = post(outbox)
        for (run_id, join), size in posting.chord_sizes.items():
            if size:
                self.app.backend.set_chord_size(_group(run_id, join), size)
        count = len(posting.messages) + len(posting.checks)
        if count:
            # A batch costs more than the one message it would hold.
            with self._producer() as producer, producer.batch() if count > 1 else nullcontext():
                for message in posting.messages:
                    self._run(producer, message)
                for check in posting.checks:
                    self._check(producer, check)
        for part in posting.parts:
            self.count(part)

    def count(self, part: Part) -> None:
        """Count a part of a chord. Once per part, however often it is counted; the last one sends the
        body.
        """
        group = _group(part.run_id, part.join)
        body = self.app.signature(
            JOIN_TASK,
            args=(part.run_id.hex, part.join),
            immutable=True,
            options={"queue": part.queue, "priority": CHECK_LEVEL, "task_id": f"{group}.join"},
        )
        index = part.ordinal if part.message is None else part.message
        context = Context(id=f"{group}.{part.id}", group=group, group_index=index, chord=dict(body))
        self.app.backend.on_chord_part_return(context, "SUCCESS", None)

    def depth(self, queue: str) -> int:
        """How many messages wait in a queue, all priorities together."""
        with self.app.connection_for_write() as connection:
            channel: Any = connection.default_channel
            return int(channel.queue_declare(queue, passive=False).message_count)

    def _producer(self) -> Any:
        # Typed as Any: `batch` is newer than the stubs.
        return self.app.producer_pool.acquire(block=True)

    def _run(self, producer: Any, message: RunMessage) -> None:
        first = ids.task_run_id(message.run_id, message.ordinals[0])
        arguments = (
            message.run_id.hex,
            list(message.ordinals),
            message.attempt,
            message.part,
            list(message.joins),
        )
        self._publish(
            producer,
            RUN_TASK,
            f"{ids.show(ids.TASK_RUN, first)}.{message.attempt}",
            arguments,
            message.queue,
            level(message.priority),
        )

    def _check(self, producer: Any, check: JoinCheck) -> None:
        name = f"{_group(check.run_id, check.join)}.check"
        self._publish(producer, JOIN_TASK, name, (check.run_id.hex, check.join), check.queue, CHECK_LEVEL)

    @staticmethod
    def _publish(
        producer: Any, task: str, id_: str, arguments: tuple[Any, ...], queue: str, priority: int
    ) -> None:
        headers = {
            "lang": "py",
            "task": task,
            "id": id_,
            "root_id": id_,
            "parent_id": None,
            "group": None,
            "retries": 0,
            "timelimit": [None, None],
            "argsrepr": "",
            "kwargsrepr": "",
            "ignore_result": True,
        }
        producer.publish(
            (arguments, {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}),
            exchange="",
            routing_key=queue,
            serializer="json",
            headers=headers,
            correlation_id=id_,
            priority=priority,
            retry=False,
        )


def _group(run_id: UUID, join: int) -> str:
    return f"{run_id.hex}.{join}"
