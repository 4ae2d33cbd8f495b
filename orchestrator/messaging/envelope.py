"""Encodes a message as it is stored in Redis (pure), and reads it again: Celery's task protocol 2 in kombu's
Redis envelope.

The bytes are those that kombu's own producer would write, without the object it makes for each message: what
the messages of a task have in common is text that is made once.
Whoever can write to Redis can write anything, so a message is read with distrust: only what `encode` could
have written is a message, and everything else is unreadable.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from binascii import b2a_base64
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from pipeweave.chance import piece
from pipeweave.ids import MAX_TASK_RUNS
from pipeweave.size_limits import MAX_STEPS

RUN_TASK = "pipeweave.run"
JOIN_TASK = "pipeweave.join"

# A message takes about 700 bytes; each task run or join that it names adds a few.
_MOST_BYTES = 256 * 1024
# Far more task runs than one message names (batching.MAX_SHORT_CHUNK).
_MOST_NAMED = 1_000
# A task's id and how many task runs the message names.
_LONGEST_NAME = 300
_MOST_COUNTED = 2**31 - 1
_RUN_ID = re.compile(r"[0-9a-f]{32}\Z")

# The same JSON as kombu writes, with its spaces; orjson writes none.
_encode = json.JSONEncoder().encode
# A text as JSON, with its quotes.
_text = json.encoder.encode_basestring_ascii

_NOTHING_FOLLOWS = _encode({"callbacks": None, "errbacks": None, "chain": None, "chord": None})

# Every key and channel of ours in Redis begins with this, also those that kombu and Celery name: a database
# may be shared with other Celery apps.
KEY_PREFIX = "pipeweave."


def list_key(queue: str, level: int) -> str:
    """The Redis list in which a queue's messages of one level wait."""
    return f"{queue}\x06\x16{level}" if level else queue


def place_of(key: str) -> tuple[str, int]:
    """The queue and the level of a Redis list."""
    queue, _, level = key.partition("\x06\x16")
    return queue, int(level or 0)


def binding_keys(queue: str) -> tuple[str, ...]:
    """The Redis keys in which kombu keeps that a queue is bound to the exchange of its name."""
    name = queue.removeprefix(KEY_PREFIX)
    return tuple(f"{KEY_PREFIX}_kombu.{kind}.{name}" for kind in ("binding", "binding_permanent"))


def queue_of(routing_key: str) -> str:
    """The queue that a message was in, by the routing key with which Celery delivers it."""
    return KEY_PREFIX + routing_key.removeprefix(KEY_PREFIX)


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message that was read.

    Args:
        task: RUN_TASK or JOIN_TASK.
        id: the Celery id, the same for every copy of the message.
        arguments: of the task; their types and sizes are right.
        sent: when it was sent (s since the epoch, by PostgreSQL's clock); 0 when it does not say.
        put_back: how often a worker has put it back.
        shown: the name by which Flower and `celery inspect` show it; None for that of the Celery task.
    """

    task: str
    id: str
    arguments: list[Any]
    sent: float
    put_back: int = 0
    shown: str | None = None


@dataclass(frozen=True, slots=True)
class UnreadableMessage:
    """Something in a queue that is no message, and why."""

    reason: str


def encode(
    task: str,
    id_: str,
    arguments: Sequence[Any],
    queue: str,
    level: int,
    sent: float,
    *,
    put_back: int = 0,
    shown: str | None = None,
) -> str:
    """Encode a message for a worker of `queue`.

    Args:
        task: name of the Celery task.
        id_: the Celery id, the same for every copy of the message.
        arguments: positional arguments: ids in hex, whole numbers, and lists of numbers.
        queue: the queue that the message goes to.
        level: the Redis level of the message.
        sent: when it is sent (s since the epoch, by PostgreSQL's clock); the header carries it in whole ms.
        put_back: how often a worker has put it back; only such a message has this header.
        shown: the name by which Flower and `celery inspect` show it, in Celery's header `shadow`; None for
            the name of the Celery task.
    """
    frame = _frame(task, queue, level, put_back, shown)
    # kombu writes a blank behind each comma, and none of the arguments has one inside.
    said = orjson.dumps(arguments).decode().replace(",", ", ")
    body = b2a_base64(f"[{said}, {{}}, {_NOTHING_FOLLOWS}]".encode(), newline=False).decode()
    name, chance = _text(id_), piece().hex()
    tag = f"{chance[:8]}-{chance[8:12]}-{chance[12:16]}-{chance[16:20]}-{chance[20:]}"
    return (
        f'{{"body": "{body}", {frame.kind}, "id": {name}, "root_id": {name}, {frame.headers}, '
        f'"sent": {int(sent * 1000)}{frame.marks}}}, "properties": {{"correlation_id": {name}, '
        f'{frame.properties}, "delivery_tag": "{tag}"}}}}'
    )


@dataclass(frozen=True, slots=True)
class _Frame:
    """What the messages of one task to one list have in common, as JSON text without the outer braces.

    Args:
        kind: what the body is, and the headers up to the id.
        headers: those behind the id, up to the time.
        marks: those behind the time, each with a comma in front.
        properties: those behind the id, up to the tag.
    """

    kind: str
    headers: str
    marks: str
    properties: str


@lru_cache(maxsize=1024)
def _frame(task: str, queue: str, level: int, put_back: int, shown: str | None) -> _Frame:
    kind = {"content-encoding": "utf-8", "content-type": "application/json"}
    more: dict[str, Any] = {
        "parent_id": None,
        "group": None,
        "retries": 0,
        "timelimit": [None, None],
        "argsrepr": "",
        "kwargsrepr": "",
        "ignore_result": True,
    }
    marks = {"put_back": put_back or None, "shadow": shown}
    properties = {
        "delivery_mode": 2,
        "delivery_info": {"exchange": "", "routing_key": queue.removeprefix(KEY_PREFIX)},
        "priority": level,
        "body_encoding": "base64",
    }
    headers = _encode({"lang": "py", "task": task})
    said = [f", {_inside({name: value})}" for name, value in marks.items() if value is not None]
    return _Frame(
        f'{_inside(kind)}, "headers": {headers[:-1]}', _inside(more), "".join(said), _inside(properties)
    )


def _inside(values: dict[str, Any]) -> str:
    return _encode(values)[1:-1]


def decode(raw: bytes | str) -> Envelope | UnreadableMessage:
    """Read what a worker took from a queue. Nothing that it holds raises an error."""
    if len(raw) > _MOST_BYTES:
        return UnreadableMessage(f"it has {len(raw)} bytes")
    try:
        message = orjson.loads(raw)
        headers, body = message["headers"], message["body"]
        task, id_ = headers["task"], headers["id"]
        arguments, keywords, _ = orjson.loads(b64decode(body, validate=True))
        put_back, shown = headers.get("put_back", 0), headers.get("shadow")
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        return UnreadableMessage(f"it is no message ({type(error).__name__}: {str(error)[:100]})")
    if type(task) is not str or task not in _IS_READABLE:
        return UnreadableMessage(f"it is for an unknown task, {str(task)[:100]!r}")
    if type(id_) is not str or not 0 < len(id_) < 200 or not _is_whole(put_back):
        return UnreadableMessage("its headers have wrong types")
    if type(arguments) is not list or keywords != {} or not _IS_READABLE[task](arguments):
        return UnreadableMessage(f"its arguments do not fit {task}")
    is_name = type(shown) is str and 0 < len(shown) <= _LONGEST_NAME
    return Envelope(task, id_, arguments, _sent(headers.get("sent")), put_back, shown if is_name else None)


def _is_run(arguments: list[Any]) -> bool:
    if len(arguments) != 5:
        return False
    run_id, ordinals, attempt, part, joins = arguments
    return (
        _is_run_id(run_id)
        and bool(ordinals)
        and _are_whole(ordinals, 1, MAX_TASK_RUNS - 1, _MOST_NAMED)
        and _is_whole(attempt, 1)
        and _is_whole(part, -1)
        and _are_whole(joins, 0, MAX_TASK_RUNS - 1, MAX_STEPS)
    )


def _is_join(arguments: list[Any]) -> bool:
    return len(arguments) == 2 and _is_run_id(arguments[0]) and _is_whole(arguments[1], 0, MAX_TASK_RUNS - 1)


_IS_READABLE = {RUN_TASK: _is_run, JOIN_TASK: _is_join}


def _is_run_id(value: Any) -> bool:
    return type(value) is str and _RUN_ID.match(value) is not None


def _is_whole(value: Any, low: int = 0, high: int = _MOST_COUNTED) -> bool:
    # True is an int, too.
    return type(value) is int and low <= value <= high


def _are_whole(values: Any, low: int, high: int, most: int) -> bool:
    return type(values) is list and len(values) <= most and all(_is_whole(each, low, high) for each in values)


def sent_at(message: bytes | str) -> float:
    """When a message was sent (s since the epoch); 0 when it does not say, as a foreign message may not."""
    try:
        return _sent(json.loads(message)["headers"]["sent"])
    except (ValueError, TypeError, LookupError, RecursionError):
        return 0.0


def _sent(value: Any) -> float:
    return value / 1000 if type(value) is int and 0 <= value < _END_OF_TIME_MS else 0.0


# Just after the last moment that a Python datetime can hold (ms since the epoch).
_END_OF_TIME_MS = 253_402_300_800_000
