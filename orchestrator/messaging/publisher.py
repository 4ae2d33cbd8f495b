"""Publishes messages and counts the parts of chords; the only module that knows chords.

An outbox leaves in one round trip (docs/celery.md): the sizes of its chords, then its messages, then the
parts that are already done. A chord is late-bound: its group id names its run and its join, its size is set
before its messages are published, and the process that made a part final counts it after the commit. The last
part sends the body: a message on which a worker checks in PostgreSQL whether the join may start. So a part
that is counted twice, early or never does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from hashlib import sha1
from typing import Any
from uuid import UUID, uuid4

from celery import Celery
from celery.backends import redis as redis_backend
from redis.exceptions import NoScriptError

from pipeweave import ids
from pipeweave.errors import Unavailable
from pipeweave.orchestrator.domain.outbox import ChordPart, JoinCheck, Outgoing, PutBack
from pipeweave.orchestrator.messaging.batching import MessageBatch, RunMessage, group_into_messages
from pipeweave.orchestrator.messaging.celery_app import CHORD_LIFE_S, LEVELS
from pipeweave.orchestrator.messaging.envelope import (
    JOIN_TASK,
    RUN_TASK,
    binding_keys,
    encode,
    list_key,
    sent_at,
)
from pipeweave.orchestrator.messaging.redis_pipeline import Command, RedisPipeline

# Level 0 is read first. A check may release further work, so it does not wait behind ordinary steps.
CHECK_LEVEL = 0

# Celery's own scripts, typed as Any because they are newer than the stubs.
_SCRIPTS: Any = redis_backend
_COUNT: str = _SCRIPTS.CHORD_PART_RETURN_LUA
_CLEAN_UP: str = _SCRIPTS.CHORD_CLEANUP_LUA
_COUNT_SHA = sha1(_COUNT.encode(), usedforsecurity=False).hexdigest()
# The part that completes a chord claims its body for _CLAIM_S (s): if its process dies before it sends the
# body, a part that is counted again later sends it. After the body was sent, the chord ignores parts for
# _DONE_S (s).
_CLAIM_S = 6
_DONE_S = 300


class _Counted(Enum):
    """The result of counting a part: ONE of several, the LAST, or UNSIZED.

    A chord has no size after the broker was wiped, or after one of its messages found nothing to run
    (outbox.InvalidChord).
    """

    ONE = "one"
    LAST = "last"
    UNSIZED = "unsized"


def level(priority: int) -> int:
    """The Redis level of a task run's priority (lower runs first, 100 is the default)."""
    if priority < 50:
        return 0
    if priority < 100:
        return 3
    return 6 if priority < 150 else 9


class Publisher:
    """Sends what transactions put in their outboxes.

    Args:
        app: the deployment's Celery app.
        clock: PostgreSQL's time (s since the epoch), which messages carry; the tick compares it with the
            times of rows.

    Attributes:
        failures: how many outboxes did not leave, because the broker was away.
    """

    failures = 0

    def __init__(self, app: Celery, *, clock: Callable[[], float]) -> None:
        self.app = app
        self._clock = clock
        self._redis = RedisPipeline(app)

    def publish(self, outbox: Sequence[Outgoing]) -> None:
        """Send an outbox: chord sizes, then messages, then the parts that are already done.

        Never raises when the broker is away, and waits for it once (docs/celery.md): the tick sends the
        messages that did not leave. A client of the API does not wait for what the broker answers, unless
        parts are counted.
        """
        try:
            self._send(group_into_messages(outbox))
        except Unavailable:
            self._failed()

    def _failed(self) -> None:
        self.failures += 1

    def count(self, part: ChordPart) -> None:
        """Count a part of a chord; a repeated call counts it once. The last part sends the chord's body."""
        self.publish([part])

    def depth(self, queue: str) -> int:
        """How many messages wait in a queue, all priorities together.

        Raises:
            Unavailable: the broker cannot be used, or could not a moment ago.
        """
        return sum(self._redis.execute([("LLEN", list_key(queue, each)) for each in LEVELS]))

    def oldest(self, queue: str) -> dict[int, float | None]:
        """For each level of a queue: when the message that a worker would take next was sent (s since the
        epoch, by PostgreSQL's clock); None where nothing waits, 0 where the message does not say.

        Raises:
            Unavailable: the broker cannot be used, or could not a moment ago.
        """
        messages = self._redis.execute([("LINDEX", list_key(queue, each), -1) for each in LEVELS])
        return {
            each: None if message is None else sent_at(message)
            for each, message in zip(LEVELS, messages, strict=True)
        }

    def begin_look(self, queue: str, seconds: float) -> bool:
        """Whether this process may look at the front of a queue; nobody else may until `end_look`, or for
        twice as long as the look takes (s).

        Raises:
            Unavailable: the broker cannot be used, or could not a moment ago.
        """
        taken = ("SET", f"{queue}.look", "1", "NX", "PX", int(2000 * seconds))
        return self._redis.execute([taken]) != [None]

    def end_look(self, queue: str) -> None:
        """Let others look at a queue.

        Raises:
            Unavailable: the broker cannot be used, or could not a moment ago.
        """
        self._redis.execute([("DEL", f"{queue}.look")])

    def peek(self, queue: str, level: int, most: int) -> list[bytes]:
        """The messages of one level that workers would take next, the first one first.

        Raises:
            Unavailable: the broker cannot be used, or could not a moment ago.
        """
        [messages] = self._redis.execute([("LRANGE", list_key(queue, level), -most, -1)])
        return list(reversed(messages))

    def remove(self, queue: str, level: int, messages: Sequence[bytes]) -> None:
        """Remove messages from one level of a queue; those that a worker has taken meanwhile are gone.

        Raises:
            Unavailable: the broker cannot be used, or could not a moment ago.
        """
        self._redis.execute([("LREM", list_key(queue, level), -1, each) for each in messages])

    def check_writable(self, queue: str) -> None:
        """Push a value and delete it, next to the lists of a queue.

        Raises:
            Unavailable: the broker cannot be used, or it answers but stores nothing: it is full, or is no
                primary any more.
        """
        probe = f"{queue}.probe"
        self._redis.execute([("LPUSH", probe, ""), ("DEL", probe)])

    def forget(self, queue: str) -> None:
        """Delete a queue that nobody consumes any more, with its messages and its binding.

        Raises:
            Unavailable: the broker cannot be used, or could not a moment ago.
        """
        self._redis.execute([("DEL", *(list_key(queue, each) for each in LEVELS), *binding_keys(queue))])

    def close(self) -> None:
        """Close every connection to the broker."""
        self._redis.close()
        self.app.close()

    def _send(self, batch: MessageBatch) -> None:
        sent = self._clock()
        claim = uuid4().hex if batch.parts else ""
        counts = [self._count(part, claim) for part in batch.parts]
        commands = [
            *self._sizes(batch),
            # Before the checks: the checks see the parts counted so far, and each later part sends a check.
            *self._without_size(batch),
            *_pushes(batch, sent),
            *(("EVALSHA", _COUNT_SHA, *count) for count in counts),
        ]
        if not counts:
            self._redis.post(commands, self._failed)
            return
        replies = self._redis.execute(commands)
        counted = replies[len(replies) - len(counts) :]
        for part, count, reply in zip(batch.parts, counts, counted, strict=True):
            match self._counted(count, reply):
                case _Counted.LAST:
                    self._redis.execute(list(self._body(part, claim, sent)))
                case _Counted.UNSIZED if part.message is not None:
                    check = JoinCheck(part.run_id, part.join, part.queue)
                    self._redis.execute([("LPUSH", list_key(part.queue, CHECK_LEVEL), _check(check, sent))])

    def _counted(self, count: Command, reply: Any) -> _Counted:
        if isinstance(reply, NoScriptError):
            # The server was restarted and lost the script: EVAL runs it and stores it again.
            reply = self._redis.execute([("EVAL", _COUNT, *count)])[0]
        done, _, size, is_last = reply
        if is_last:
            return _Counted.LAST
        # A chord that has fired has no size either.
        return _Counted.UNSIZED if size is None and done >= 0 else _Counted.ONE

    def _without_size(self, batch: MessageBatch) -> Iterable[Command]:
        for each in batch.invalid_chords:
            yield ("DEL", *self._keys(each.run_id, each.join, b".s"))

    def _sizes(self, batch: MessageBatch) -> Iterable[Command]:
        """The commands of `set_chord_size` of Celery's backend, to send them in the same round trip.

        A reopened run may size a chord again: the parts that were counted before are deleted.
        """
        for (run_id, join), size in batch.chord_sizes.items():
            if size:
                *counted, of_size = self._keys(run_id, join, b".c", b".j", b".t", b".d", b".s")
                yield ("DEL", *counted)
                yield ("SET", of_size, size, "EX", CHORD_LIFE_S)

    def _count(self, part: ChordPart, claim: str) -> Command:
        """Keys and arguments of Celery's counting script, as its backend's `on_chord_part_return` passes
        them.

        The part's result is never read. The chord keeps its results in a list (`result_chord_ordered` is
        off).
        """
        keys = self._keys(part.run_id, part.join, b".j", b".t", b".s", b".d", b"", b".c")
        id_ = f"{_group(part.run_id, part.join)}.{part.id}"
        index = part.ordinal if part.message is None else part.message
        result = f'[1, "{id_}", "SUCCESS", null]'
        return (len(keys), *keys, id_, result, 0, index or 0, CHORD_LIFE_S, 0, _CLAIM_S, claim)

    def _body(self, part: ChordPart, claim: str, sent: float) -> Iterable[Command]:
        """The commands that send the body of a complete chord, then delete the chord's keys."""
        id_, arguments = f"{_group(part.run_id, part.join)}.join", (part.run_id.hex, part.join)
        message = encode(JOIN_TASK, id_, arguments, part.queue, CHECK_LEVEL, sent)
        yield ("LPUSH", list_key(part.queue, CHECK_LEVEL), message)
        keys = self._keys(part.run_id, part.join, b".c", b".j", b".t", b".s", b".d")
        yield ("EVAL", _CLEAN_UP, len(keys), *keys, claim, _DONE_S)

    def _keys(self, run_id: UUID, join: int, *names: bytes) -> list[bytes]:
        """The keys of a chord, as Celery's backend names them: each of these names is the end of one."""
        backend: Any = self.app.backend
        chord: bytes = backend.get_key_for_group(_group(run_id, join))
        return [chord + each for each in names]


def _pushes(batch: MessageBatch, sent: float) -> Iterable[Command]:
    """The commands that push messages and checks to their Redis lists, each list in the outbox's order."""
    lists: dict[str, list[str]] = {}
    for message in batch.messages:
        at = level(message.priority)
        lists.setdefault(list_key(message.queue, at), []).append(_run(message, at, sent))
    for check in batch.checks:
        lists.setdefault(list_key(check.queue, CHECK_LEVEL), []).append(_check(check, sent))
    yield from (("LPUSH", name, *messages) for name, messages in lists.items())
    for each in batch.put_back:
        at = level(each.priority)
        # Workers take from this end. The message keeps its first sending time; otherwise the tick would take
        # the messages of its task runs for lost.
        yield ("RPUSH", list_key(each.queue, at), _run(each, at, each.since.timestamp()))


def _run(message: RunMessage | PutBack, at: int, sent: float) -> str:
    id_ = f"{ids.show_task_run(message.run_id, message.ordinals[0])}.{message.attempt}"
    arguments = (message.run_id.hex, message.ordinals, message.attempt, message.part, message.joins)
    return encode(RUN_TASK, id_, arguments, message.queue, at, sent, shown=_shown(message))


def _shown(message: RunMessage | PutBack) -> str | None:
    """The name of a message in Flower and `celery inspect`: its task, how many task runs, which attempt.

    `charge`, `charge x12` or `charge, attempt 2`.
    """
    if message.task_id is None:
        return None
    count = "" if len(message.ordinals) == 1 else f" x{len(message.ordinals)}"
    attempt = "" if message.attempt == 1 else f", attempt {message.attempt}"
    return f"{message.task_id}{count}{attempt}"


def _check(check: JoinCheck, sent: float) -> str:
    id_, arguments = f"{_group(check.run_id, check.join)}.check", (check.run_id.hex, check.join)
    return encode(JOIN_TASK, id_, arguments, check.queue, CHECK_LEVEL, sent)


def _group(run_id: UUID, join: int) -> str:
    return f"{run_id.hex}.{join}"
