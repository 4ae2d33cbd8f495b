"""Outgoing messages as Celery understands them; the only module that knows chords.

What one transaction sends leaves in one round trip (docs/celery.md): the sizes of its chords, its messages,
the parts that are already done. The chord is late-bound: its group id is its join's task run, its size is set
before anything is published, and a part is counted by whoever made it final, after the commit. The last part
sends the body, a message that asks PostgreSQL whether the join may go. So a part counted twice, early or
never is harmless.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import Enum
from hashlib import sha1
from typing import Any
from uuid import UUID, uuid4

from celery import Celery
from celery.backends import redis as redis_backend
from redis.exceptions import NoScriptError

from pipeweave import ids
from pipeweave.errors import Unavailable
from pipeweave.orchestrator.domain.outbox import JoinCheck, Outgoing, Part, PutBack
from pipeweave.orchestrator.messaging.batching import Posting, RunMessage, post
from pipeweave.orchestrator.messaging.celery_app import CHORD_LIFE_S, LEVELS
from pipeweave.orchestrator.messaging.envelope import encode, key, sent_at
from pipeweave.orchestrator.messaging.redis_pipeline import Command, Wire

RUN_TASK = "pipeweave.run"
JOIN_TASK = "pipeweave.join"

# Redis has four levels, 0 first. A check releases others' work, so it never waits behind steps.
CHECK_LEVEL = 0

# Celery's own scripts, typed as Any because they are newer than the stubs.
_SCRIPTS: Any = redis_backend
_COUNT: str = _SCRIPTS.CHORD_PART_RETURN_LUA
_CLEAN_UP: str = _SCRIPTS.CHORD_CLEANUP_LUA
_COUNT_SHA = sha1(_COUNT.encode(), usedforsecurity=False).hexdigest()
# The part that completes a chord claims its body for this long (s): should its process die before it sends
# the body, a part that is counted again does. A chord whose body was sent ignores parts for the longer time.
_CLAIM_S = 6
_DONE_S = 300


class _Counted(Enum):
    """What a part was to its chord: UNSIZED when nobody knows how many there are, because the broker was
    wiped, or a message of it counts for nothing (outbox.Asked).
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


class Canvas:
    """Sends what transactions put in their outbox.

    Args:
        app: the deployment's Celery app.
        clock: the wall clock that messages carry (s since the epoch).
    """

    def __init__(self, app: Celery, *, clock: Callable[[], float] = time.time) -> None:
        self.app = app
        self._clock = clock
        self._wire = Wire(app)

    def publish(self, outbox: Sequence[Outgoing]) -> None:
        """Send an outbox: chord sizes, then messages, then the parts that are already done.

        Never raises for a broker that is away, and waits for it once (docs/celery.md): the tick sends what
        did not leave.
        """
        with suppress(Unavailable):
            self._send(post(outbox))

    def count(self, part: Part) -> None:
        """Count a part of a chord. Once per part, however often it is counted; the last one sends the
        body.
        """
        self.publish([part])

    def depth(self, queue: str) -> int:
        """How many messages wait in a queue, all priorities together.

        Raises:
            Unavailable: the broker cannot be used, or could not a moment ago.
        """
        return sum(self._wire.ask([("LLEN", key(queue, each)) for each in LEVELS]))

    def oldest(self, queue: str) -> dict[int, float | None]:
        """When the message that a worker would take next was sent (s since the epoch, by its publisher's
        clock), for each level of a queue; None where nothing waits, 0 where the message does not say.

        Raises:
            Unavailable: the broker cannot be used, or could not a moment ago.
        """
        found = self._wire.ask([("LINDEX", key(queue, each), -1) for each in LEVELS])
        return {
            each: None if message is None else sent_at(message)
            for each, message in zip(LEVELS, found, strict=True)
        }

    def close(self) -> None:
        """Give every connection back."""
        self._wire.close()
        self.app.close()

    def _send(self, posting: Posting) -> None:
        sent, claim = self._clock(), uuid4().hex
        counts = [self._count(part, claim) for part in posting.parts]
        replies = self._wire.ask(
            [
                *self._sizes(posting),
                # Before the checks: what is counted from now on asks, what was counted they see.
                *(("DEL", self._key(each.run_id, each.join, ".s")) for each in posting.asked),
                *_pushes(posting, sent),
                *(("EVALSHA", _COUNT_SHA, *count) for count in counts),
            ]
        )
        counted = replies[len(replies) - len(counts) :]
        for part, count, reply in zip(posting.parts, counts, counted, strict=True):
            match self._counted(count, reply):
                case _Counted.LAST:
                    self._wire.ask(list(self._body(part, claim, sent)))
                case _Counted.UNSIZED if part.message is not None:
                    check = JoinCheck(part.run_id, part.join, part.queue)
                    self._wire.ask([("LPUSH", key(part.queue, CHECK_LEVEL), _check(check, sent))])

    def _counted(self, count: Command, reply: Any) -> _Counted:
        if isinstance(reply, NoScriptError):
            # A server that was started since the script was used last: it learns the script, too.
            reply = self._wire.ask([("EVAL", _COUNT, *count)])[0]
        done, _, size, is_last = reply
        if is_last:
            return _Counted.LAST
        # A chord that has fired has no size either.
        return _Counted.UNSIZED if size is None and done >= 0 else _Counted.ONE

    def _sizes(self, posting: Posting) -> Iterable[Command]:
        """What `set_chord_size` of Celery's backend does, to send it along with the rest. A run that was
        reopened may size a chord again: what was counted of it before is forgotten.
        """
        for (run_id, join), size in posting.chord_sizes.items():
            if size:
                yield ("DEL", *(self._key(run_id, join, name) for name in (".c", ".j", ".t", ".d")))
                yield ("SET", self._key(run_id, join, ".s"), size, "EX", CHORD_LIFE_S)

    def _count(self, part: Part, claim: str) -> Command:
        """Keys and arguments of Celery's counting script, as `on_chord_part_return` of its backend gives
        them: for a result nobody reads, in a chord whose results are a list (`result_chord_ordered`).
        """
        names = (".j", ".t", ".s", ".d", "", ".c")
        keys = (self._key(part.run_id, part.join, name) for name in names)
        id_ = f"{_group(part.run_id, part.join)}.{part.id}"
        index = part.ordinal if part.message is None else part.message
        result = f'[1, "{id_}", "SUCCESS", null]'
        return (len(names), *keys, id_, result, 0, index or 0, CHORD_LIFE_S, 0, _CLAIM_S, claim)

    def _body(self, part: Part, claim: str, sent: float) -> Iterable[Command]:
        """Send the body of a complete chord, then forget the chord."""
        id_, arguments = f"{_group(part.run_id, part.join)}.join", (part.run_id.hex, part.join)
        message = encode(JOIN_TASK, id_, arguments, part.queue, CHECK_LEVEL, sent)
        yield ("LPUSH", key(part.queue, CHECK_LEVEL), message)
        names = (".c", ".j", ".t", ".s", ".d")
        keys = (self._key(part.run_id, part.join, name) for name in names)
        yield ("EVAL", _CLEAN_UP, len(names), *keys, claim, _DONE_S)

    def _key(self, run_id: UUID, join: int, name: str) -> bytes:
        backend: Any = self.app.backend
        found: bytes = backend.get_key_for_group(_group(run_id, join), name)
        return found


def _pushes(posting: Posting, sent: float) -> Iterable[Command]:
    """Messages and checks by the list they wait in, each list in the order of the outbox."""
    lists: dict[str, list[str]] = {}
    for message in posting.messages:
        at = level(message.priority)
        lists.setdefault(key(message.queue, at), []).append(_run(message, at, sent))
    for check in posting.checks:
        lists.setdefault(key(check.queue, CHECK_LEVEL), []).append(_check(check, sent))
    yield from (("LPUSH", name, *messages) for name, messages in lists.items())
    for each in posting.put_back:
        at = level(each.priority)
        # The end from which workers take. It says when it was sent first, or what it names would look lost.
        yield ("RPUSH", key(each.queue, at), _run(each, at, each.since.timestamp()))


def _run(message: RunMessage | PutBack, at: int, sent: float) -> str:
    first = ids.task_run_id(message.run_id, message.ordinals[0])
    id_ = f"{ids.show(ids.TASK_RUN, first)}.{message.attempt}"
    arguments = (message.run_id.hex, message.ordinals, message.attempt, message.part, message.joins)
    return encode(RUN_TASK, id_, arguments, message.queue, at, sent)


def _check(check: JoinCheck, sent: float) -> str:
    id_, arguments = f"{_group(check.run_id, check.join)}.check", (check.run_id.hex, check.join)
    return encode(JOIN_TASK, id_, arguments, check.queue, CHECK_LEVEL, sent)


def _group(run_id: UUID, join: int) -> str:
    return f"{run_id.hex}.{join}"
