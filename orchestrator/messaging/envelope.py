"""Encodes a message as it is stored in Redis (pure): Celery's task protocol 2 in kombu's Redis envelope.

The bytes are those that kombu's own producer would write, without the object it makes for each message.
"""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any
from uuid import uuid4

# The same JSON as kombu writes, with its spaces; orjson writes none.
_encode = json.JSONEncoder().encode

_NOTHING_FOLLOWS = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


def list_key(queue: str, level: int) -> str:
    """The Redis list in which a queue's messages of one level wait."""
    return f"{queue}\x06\x16{level}" if level else queue


def encode(task: str, id_: str, arguments: tuple[Any, ...], queue: str, level: int, sent: float) -> str:
    """Encode a message for a worker of `queue`.

    Args:
        task: name of the Celery task.
        id_: the Celery id, the same for every copy of the message.
        arguments: positional arguments that JSON can hold.
        queue: the queue that the message goes to.
        level: the Redis level of the message.
        sent: when it is sent (s since the epoch, by PostgreSQL's clock); the header carries it in whole ms.
    """
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
        "sent": int(sent * 1000),
    }
    properties = {
        "correlation_id": id_,
        "delivery_mode": 2,
        "delivery_info": {"exchange": "", "routing_key": queue},
        "priority": level,
        "body_encoding": "base64",
        "delivery_tag": str(uuid4()),
    }
    body = _encode((arguments, {}, _NOTHING_FOLLOWS)).encode()
    return _encode(
        {
            "body": b64encode(body).decode(),
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": headers,
            "properties": properties,
        }
    )


def sent_at(message: bytes | str) -> float:
    """When a message was sent (s since the epoch); 0 when it does not say, as a foreign message may not."""
    try:
        sent = json.loads(message)["headers"]["sent"]
    except (ValueError, TypeError, LookupError, RecursionError):
        return 0.0
    return sent / 1000 if type(sent) is int and 0 <= sent < _END_OF_TIME_MS else 0.0


# Just after the last moment that a Python datetime can hold (ms since the epoch).
_END_OF_TIME_MS = 253_402_300_800_000
