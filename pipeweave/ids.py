"""Ids: UUIDv7 inside, TypeIDs (`prun_…`) at the edge.

A run's id is a UUIDv7 whose last 24 bits are zero; the ids of its task runs are the same UUID with the task
run's ordinal in those bits. So the run of a task run, and with it the partition that holds both, is known
from the id alone (docs/decisions/0004-ids.md).
"""

from __future__ import annotations

import re
import secrets
import time
from uuid import UUID

from pipeweave.errors import InvalidId, NotFound

RUN, TASK_RUN, DEAD_LETTER, SERVICE, EVENT = "prun", "trun", "dlq", "svc", "evt"
REDRIVE = "rdr"

ORDINAL_BITS = 24
MAX_TASK_RUNS = 1 << ORDINAL_BITS
_ORDINAL_MASK = MAX_TASK_RUNS - 1
_CHANCE_BITS = 50
# Time and chance of the id made last. No lock: two threads at once have no order to keep, and their steps
# by chance differ.
_newest = 0

MAX_NAME_LENGTH = 200
_NAME = re.compile(r"[A-Za-z0-9._~:@-]{1,200}\Z")

# Crockford's base 32, lower case, as TypeID uses it: 26 characters for 128 bits.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_VALUES = {letter: value for value, letter in enumerate(_ALPHABET)}


def new_id(now_ms: int | None = None) -> UUID:
    """A UUIDv7 with its last 24 bits zero: 48 bits of time in ms, 50 bits of chance.

    Those a process makes within one millisecond grow, too (RFC 9562, 6.2, method 2), so that the line of runs
    that one API process accepted is the order in which it accepted them.
    """
    global _newest
    stamp = int(time.time() * 1000) if now_ms is None else now_ms
    # 49 bits: the highest stays free for the steps below, each of up to 32 bits.
    made = stamp << _CHANCE_BITS | secrets.randbits(_CHANCE_BITS - 1)
    if stamp == _newest >> _CHANCE_BITS:
        made = _newest + 1 + secrets.randbits(32)
    _newest = made
    stamp, chance = made >> _CHANCE_BITS, made & (1 << _CHANCE_BITS) - 1
    value = stamp << 80 | 0x7 << 76 | (chance >> 38) << 64 | 0b10 << 62 | (chance & ((1 << 38) - 1)) << 24
    return UUID(int=value)


def first_id_at(stamp_ms: int) -> UUID:
    """The lowest id that can be made at this time (ms since 1970): the bound of a partition."""
    return UUID(int=stamp_ms << 80)


def task_run_id(run_id: UUID, ordinal: int) -> UUID:
    """The id of the run's task run with this ordinal (1 to 2^24 - 1)."""
    if not 0 < ordinal < MAX_TASK_RUNS:
        raise ValueError(f"ordinal {ordinal} is outside 1 to {MAX_TASK_RUNS - 1}")
    return UUID(int=run_id.int | ordinal)


def run_id_of(task_run: UUID) -> UUID:
    """The id of the run this task run belongs to."""
    return UUID(int=task_run.int & ~_ORDINAL_MASK)


def ordinal_of(task_run: UUID) -> int:
    """The ordinal of a task run within its run."""
    return task_run.int & _ORDINAL_MASK


def show(prefix: str, value: UUID) -> str:
    """The TypeID of an id, e.g. `prun_01jd…`."""
    number = value.int
    return prefix + "_" + "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def read(prefix: str, text: str) -> UUID:
    """The UUID of a TypeID.

    Raises:
        NotFound: the text is not an id of that kind. An id that cannot exist is simply not there.
    """
    head, _, tail = text.rpartition("_")
    if head != prefix or len(tail) != 26 or not set(tail) <= _VALUES.keys() or tail[0] > "7":
        raise NotFound(
            f"there is no {text!r}", hint=f"ids of this kind look like {prefix}_01jd…", id=text[:200]
        )
    number = 0
    for letter in tail:
        number = number << 5 | _VALUES[letter]
    return UUID(int=number)


def check_name(text: str, what: str) -> str:
    """The text, if it may be the id of a task, pipeline, step, service or tenant.

    Raises:
        InvalidId: it is empty, longer than 200 characters or has other characters.
    """
    if not isinstance(text, str) or not _NAME.match(text):
        raise InvalidId(
            f"{what} {str(text)[:80]!r} is not a valid id",
            hint="use 1 to 200 of the characters A-Z a-z 0-9 . _ ~ : @ -",
        )
    return text
