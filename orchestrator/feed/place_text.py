"""Writes a place in the event log as a short text, and reads it back (pure).

The text says which database and which tenant it is for, and has a check sum: so a text that was cut, or is
another deployment's, is told from one that can be used. It holds no secret: whoever makes one up can skip
events of their own tenant, and nothing else.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import itertools
from collections.abc import Iterable, Iterator

from pipeweave.errors import CursorExpired, FieldError, InvalidInput
from pipeweave.orchestrator.feed.place import Place, SeenTransactions

# Of a text. A number takes about two bytes for each transaction that was open.
MAX_TEXT = 6_000

_VERSION = 1
_SUM_BYTES = 4
_LARGEST = 1 << 63


def write(place: Place, database: str, tenant: str = "") -> str:
    """The text of a place: letters, digits, `-` and `_`.

    Args:
        database: which database the place is in, see `feed.identity`.
        tenant: for whom it is; empty: for a reader of all tenants.
    """
    body = bytes([_VERSION]) + _sum(database) + b"".join(map(_varint, _numbers(place)))
    return base64.urlsafe_b64encode(body + _sum(tenant, body)).rstrip(b"=").decode()


def read(text: str, database: str, tenant: str = "", *, field: str = "cursor") -> Place:
    """The place that a text tells.

    Args:
        field: the name of the text in an error: that of a parameter or header.

    Raises:
        InvalidInput: it is no text of this tenant's.
        CursorExpired: it was made for another database.
    """
    try:
        body = _checked(text, tenant)
        place = _place(list(_read_varints(body[1 + _SUM_BYTES :])))
    except (ValueError, StopIteration, binascii.Error) as error:
        raise InvalidInput(
            f"{field} is not a cursor of this stream",
            errors=[FieldError(field, "is not a cursor of this stream", "invalid_cursor")],
            hint="pass the id of the last event that came, unchanged, or none to begin with what comes now",
        ) from error
    if body[1 : 1 + _SUM_BYTES] != _sum(database):
        raise CursorExpired("the cursor was given out by another database")
    return place


def _checked(text: str, tenant: str) -> bytes:
    if len(text) > MAX_TEXT:
        raise ValueError("too long")
    content = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    body, checksum = content[:-_SUM_BYTES], content[-_SUM_BYTES:]
    if len(body) <= 1 + _SUM_BYTES or body[0] != _VERSION or checksum != _sum(tenant, body):
        raise ValueError("not a place")
    return body


def _sum(text: str, content: bytes = b"") -> bytes:
    return hashlib.blake2b(text.encode() + b"\0" + content, digest_size=_SUM_BYTES).digest()


def _numbers(place: Place) -> Iterator[int]:
    yield place.at
    yield from _of_seen(place.seen)
    if place.next is not None:
        yield place.next.before - place.seen.before
        yield from _open(place.next)
        # -1: before the first event.
        yield place.seq + 1


def _of_seen(seen: SeenTransactions) -> Iterator[int]:
    yield seen.before
    yield from _open(seen)


def _open(seen: SeenTransactions) -> Iterator[int]:
    yield len(seen.open)
    yield from (seen.before - each for each in seen.open)


def _place(numbers: list[int]) -> Place:
    rest = iter(numbers)
    at = next(rest)
    seen = _seen(next(rest), rest)
    later = next(rest, None)
    if later is None:
        return Place(seen, at=at)
    following = _seen(seen.before + later, rest)
    seq = next(rest) - 1
    if next(rest, None) is not None:
        raise ValueError("too many numbers")
    return Place(seen, following, seq, at)


def _seen(before: int, rest: Iterator[int]) -> SeenTransactions:
    # A list, and no generator: in one of those, the end of the numbers would be another error.
    transactions = [before - next(rest) for _ in range(next(rest))]
    ascending = all(low < high for low, high in itertools.pairwise(transactions))
    if not ascending or (transactions and not 0 < transactions[0] <= transactions[-1] < before):
        raise ValueError("not in order")
    return SeenTransactions(before, tuple(transactions))


def _varint(number: int) -> bytes:
    """A number in groups of seven bits, lowest first; the last group has no high bit."""
    content = bytearray()
    while number > 0x7F:
        content.append(number & 0x7F | 0x80)
        number >>= 7
    content.append(number)
    return bytes(content)


def _read_varints(content: Iterable[int]) -> Iterator[int]:
    number = shift = 0
    for each in content:
        number |= (each & 0x7F) << shift
        shift += 7
        if number >= _LARGEST:
            raise ValueError("too large")
        if each < 0x80:
            yield number
            number = shift = 0
    if shift:
        raise ValueError("cut")
