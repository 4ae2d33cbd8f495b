"""Make and convert ids: UUIDv7 in the database, TypeIDs (`prun_…`) in JSON, logs and the CLI.

A run's id is a UUIDv7 whose last 24 bits are zero. The id of a task run is its run's UUID with the task run's
ordinal in those 24 bits. So a task run's id gives its run and the partition that holds both rows
(docs/decisions/0004-ids.md).
"""

from __future__ import annotations

import re
import time
from uuid import UUID

from pipeweave import chance
from pipeweave.errors import InvalidId, NotFound

RUN, TASK_RUN, DEAD_LETTER, SERVICE, EVENT = "prun", "trun", "dlq", "svc", "evt"
REDRIVE, UPLOAD, BULK, SIGNAL = "rdr", "tmp", "bulk", "sig"

# What an id of a prefix names, for messages.
_KINDS = {
    RUN: "run",
    TASK_RUN: "task run",
    DEAD_LETTER: "dead letter",
    REDRIVE: "redrive",
    UPLOAD: "upload",
    BULK: "bulk change",
}

ORDINAL_BITS = 24
MAX_TASK_RUNS = 1 << ORDINAL_BITS
ORDINAL_MASK = MAX_TASK_RUNS - 1
_CHANCE_BITS = 50
_CHANCE_MASK = (1 << _CHANCE_BITS) - 1
_LOW_CHANCE_MASK = (1 << 38) - 1
# Timestamp and random bits of the last id made. No lock is needed: two threads that make ids at the same time
# have no order between them, and they add different random increments.
_newest = 0

MAX_NAME_LENGTH = 200
# For JSON schemas, next to the length: some engines know no look-ahead.
NAME_PATTERN = r"^\.*[A-Za-z0-9_~:@-][A-Za-z0-9._~:@-]*$"
# A name of dots alone is refused: in a path, clients and proxies take `.` and `..` for steps.
_NAME = re.compile(r"(?!\.+\Z)[A-Za-z0-9._~:@-]{1,200}\Z")

# The ids of the "tasks" of steps that the engine decides itself begin so. No task of a user may.
ENGINE_TASK_PREFIX = "pipeweave:"

# Crockford's base 32, lower case, as TypeID uses it: 26 characters for 128 bits.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_LENGTH = 26
_VALUES = {letter: value for value, letter in enumerate(_ALPHABET)}
# Two letters at a time take half as long; each answer and message shows several ids.
_PAIRS = tuple(high + low for high in _ALPHABET for low in _ALPHABET)
_HALF_MASK = (1 << 60) - 1


def new_id(now_ms: int | None = None) -> UUID:
    """Make a UUIDv7 with its last 24 bits zero: 48 bits of time in ms, 50 random bits.

    Ids that a process makes within one millisecond increase, too (RFC 9562, 6.2, method 2). So runs sorted by
    id are in the order in which an API process accepted them.

    Args:
        now_ms: ms since 1970; the current time by default.
    """
    return new_ids(1, now_ms)[0]


def new_ids(count: int, now_ms: int | None = None) -> list[UUID]:
    """Make so many ids as `new_id` makes them, each higher than the one before it."""
    global _newest
    stamp = int(time.time() * 1000) if now_ms is None else now_ms
    # Only 49 random bits: the highest bit leaves room for the steps below, each of up to 32 bits.
    made = stamp << _CHANCE_BITS | chance.bits(_CHANCE_BITS - 1)
    if stamp == _newest >> _CHANCE_BITS:
        made = _newest + 1 + chance.bits(32)
    numbers = [made]
    if count > 1:
        # One look at the system's source of chance for all of them.
        steps = chance.bits(32 * (count - 1)).to_bytes(4 * (count - 1))
        for step in memoryview(steps).cast("I"):
            made += 1 + step
            numbers.append(made)
    _newest = made
    return [UUID(int=_with_marks(each)) for each in numbers]


def _with_marks(made: int) -> int:
    """The number of a UUIDv7 with this time and these random bits."""
    drawn = made & _CHANCE_MASK
    return (
        made >> _CHANCE_BITS << 80
        | 0x7 << 76
        | drawn >> 38 << 64
        | 0b10 << 62
        | (drawn & _LOW_CHANCE_MASK) << 24
    )


def first_id_at(stamp_ms: int) -> UUID:
    """The lowest id of this time (ms since 1970); partitions use it as their bound."""
    return UUID(int=stamp_ms << 80)


def task_run_id(run_id: UUID, ordinal: int) -> UUID:
    """The id of the run's task run with this ordinal (1 to 2^24 - 1)."""
    if not 0 < ordinal < MAX_TASK_RUNS:
        raise ValueError(f"ordinal {ordinal} is outside 1 to {MAX_TASK_RUNS - 1}")
    return UUID(int=run_id.int | ordinal)


def run_id_of(task_run: UUID) -> UUID:
    """The id of the run this task run belongs to."""
    return UUID(int=task_run.int & ~ORDINAL_MASK)


def ordinal_of(task_run: UUID) -> int:
    """The ordinal of a task run within its run."""
    return task_run.int & ORDINAL_MASK


def show(prefix: str, value: UUID) -> str:
    """Write an id as a TypeID, e.g. `prun_01jd…`."""
    return _shown(prefix, value.int)


def show_task_run(run_id: UUID, ordinal: int) -> str:
    """Write the id of a run's task run, as `show` writes it."""
    return _shown(TASK_RUN, run_id.int | ordinal)


def _shown(prefix: str, number: int) -> str:
    pairs = _PAIRS
    # Halves are small numbers, whose bits cost less.
    high, low = number >> 60, number & _HALF_MASK
    return (
        f"{prefix}_{pairs[high >> 60]}{pairs[high >> 50 & 1023]}{pairs[high >> 40 & 1023]}"
        f"{pairs[high >> 30 & 1023]}{pairs[high >> 20 & 1023]}{pairs[high >> 10 & 1023]}{pairs[high & 1023]}"
        f"{pairs[low >> 50]}{pairs[low >> 40 & 1023]}{pairs[low >> 30 & 1023]}{pairs[low >> 20 & 1023]}"
        f"{pairs[low >> 10 & 1023]}{pairs[low & 1023]}"
    )


def read(prefix: str, text: str) -> UUID:
    """Read the UUID of a TypeID.

    Raises:
        NotFound: the text is not a TypeID with this prefix. Callers look rows up by id, so a malformed id is
            answered like an unknown id.
    """
    head, _, tail = text.rpartition("_")
    if head != prefix or len(tail) != _LENGTH or not set(tail) <= _VALUES.keys() or tail[0] > "7":
        raise NotFound(
            f"{_KINDS.get(prefix, prefix)} {text[:200]!r} not found",
            hint=f"expected an id such as {prefix}_01jd…",
            id=text[:200],
        )
    number = 0
    for letter in tail:
        number = number << 5 | _VALUES[letter]
    return UUID(int=number)


def span(prefix: str, beginning: str) -> tuple[UUID, UUID]:
    """The lowest and the highest id that a TypeID with this beginning may have.

    Args:
        prefix: the kind of id, e.g. `prun`.
        beginning: 1 to 26 characters of the id, with or without `prun_` before them.

    Raises:
        NotFound: no id of this kind begins like that.
    """
    tail = beginning.removeprefix(f"{prefix}_")
    if not 0 < len(tail) <= _LENGTH or not set(tail) <= _VALUES.keys():
        raise NotFound(
            f"no id begins with {beginning[:200]!r}", hint=f"expected an id such as {prefix}_01jd…"
        )
    if tail[0] > "7":
        raise NotFound(
            f"no id begins with {beginning[:200]!r}",
            hint=f"after {prefix}_, an id begins with a digit from 0 to 7",
        )
    lowest, highest = (f"{prefix}_{tail.ljust(_LENGTH, fill)}" for fill in (_ALPHABET[0], _ALPHABET[-1]))
    return read(prefix, lowest), read(prefix, highest)


def check_name(text: str, kind: str) -> str:
    """Return the text if it is a valid id of a task, pipeline, step, service or tenant.

    Args:
        text: the id.
        kind: the kind of id, for the error message.

    Raises:
        InvalidId: the text is empty, longer than 200 characters, has a character that ids may not have, or
            has dots only.
    """
    if not isinstance(text, str) or not _NAME.match(text):
        raise InvalidId(
            f"{kind} {str(text)[:80]!r} is not a valid id",
            hint="use 1 to 200 of the characters A-Z a-z 0-9 . _ ~ : @ -, not only dots",
        )
    return text
