"""Doctor's check whether others use the broker's database, and who."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.diagnosis.doctor import Check, Verdict, fine, warning
from pipeweave.orchestrator.messaging.celery_app import make_celery
from pipeweave.orchestrator.messaging.envelope import KEY_PREFIX
from pipeweave.orchestrator.messaging.redis_pipeline import RedisPipeline
from pipeweave.settings import Settings

# At most this many round trips with this many keys each are looked at: the database may be large.
MAX_SCANS = 20
KEYS_PER_SCAN = 1_000
# Names that are shown of each kind.
_SHOWN = 3

# kombu keeps the queues of an exchange in a set of this name, and joins what a member says by _SEPARATOR.
_TABLE = "_kombu.binding."
_SEPARATOR = "\x06\x16"
# Exchanges by which workers are told something, instead of tasks.
_BOX, _EVENTS = ".pidbox", "celeryev"


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Who else uses a database of the broker.

    Args:
        queues: queues of other Celery apps.
        workers: their workers, also those that died lately.
        keys: how many keys of others were found.
    """

    queues: Sequence[str]
    workers: Sequence[str]
    keys: int


def sharing(settings: Settings) -> Verdict:
    """Nobody else uses the broker's database."""
    redis = RedisPipeline(make_celery(settings))
    try:
        others = neighbours(redis)
    finally:
        redis.close()
    if not others.keys:
        return fine("no other application uses this database")
    parts = [f"{others.keys} keys of other applications"]
    if others.queues:
        parts.append(f"another Celery app with {_listed('queue', others.queues)}")
    if others.workers:
        parts.append(_listed("worker", others.workers))
    return warning(
        f"the database is shared: {', '.join(parts)}",
        "nothing is mixed up, but FLUSHDB or full memory hits all: use a database number of its own",
    )


def neighbours(redis: RedisPipeline) -> Neighbours:
    """Look for keys that are not ours.

    Raises:
        Unavailable: the broker cannot be used.
    """
    keys = [key for key in _keys(redis) if not key.startswith(KEY_PREFIX)]
    tables = [key for key in keys if key.startswith(_TABLE) and not key.endswith(_EVENTS)]
    boxes = [key for key in tables if key.endswith(_BOX) and not key.startswith(f"{_TABLE}reply.")]
    queues = [key for key in tables if not key.endswith(_BOX)]
    named = _members(redis, boxes)
    workers = {name.removesuffix(_BOX).rpartition(".")[0] for name in named}
    return Neighbours(sorted(_members(redis, queues)), sorted(workers), len(keys))


def _keys(redis: RedisPipeline) -> set[str]:
    names: set[str] = set()
    cursor: Any = b"0"
    for _ in range(MAX_SCANS):
        [(cursor, keys)] = redis.execute([("SCAN", cursor, "COUNT", KEYS_PER_SCAN)])
        names |= {_text(key) for key in keys}
        if cursor == b"0":
            break
    return names


def _members(redis: RedisPipeline, tables: Iterable[str]) -> set[str]:
    """The queues that these tables name; none if this user of the broker may not read them."""
    commands = [("SMEMBERS", table) for table in tables]
    try:
        replies = redis.execute(commands)
    except Unavailable:
        return set()
    return {_text(member).rpartition(_SEPARATOR)[2] for members in replies for member in members}


def _text(name: bytes) -> str:
    return name.decode(errors="replace")


def _listed(what: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{what}{'s' if len(names) > 1 else ''} {', '.join(names[:_SHOWN])}{more}"


CHECK = Check("broker sharing", sharing, needs=("broker",))
