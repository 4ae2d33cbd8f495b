"""A sweep that an operator asks for: as much of a whole pass as one request may take, with a report."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import timedelta

from pipeweave.errors import Conflict, FieldError, InvalidInput, NotFound
from pipeweave.orchestrator.objects import marks
from pipeweave.orchestrator.objects.sweep import LEASE, Sweeper, Swept
from pipeweave.orchestrator.store import leases
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.leases import Lease
from pipeweave.storage import Backends, ObjectRef

# A request goes on for about this long (s); the next one goes on where it ended.
REQUEST_S = 15.0


@dataclass(frozen=True, slots=True)
class SweepOrder:
    """What is to be swept.

    Args:
        backend: only this one; None: all, one after the other.
        after: the reference at which the request before ended.
        is_rehearsal: only report.
        adopts: the objects without the mark of this deployment are its own.
    """

    backend: str | None = None
    after: str | None = None
    is_rehearsal: bool = False
    adopts: bool = False


@dataclass(slots=True)
class SweepResult:
    """What was found and done, and the reference at which to go on; None when the pass is complete."""

    swept: Swept = field(default_factory=Swept)
    next: str | None = None


def run(
    database: Database,
    backends: Backends,
    order: SweepOrder,
    *,
    grace: timedelta,
    is_own_folder: bool,
    seconds: float = REQUEST_S,
) -> SweepResult:
    """Sweep for so many seconds.

    Raises:
        NotFound: there is no such backend.
        InvalidInput: `after` was not the end of a request.
        Conflict: another process is sweeping, or a backend may belong to another deployment.
        Unavailable: PostgreSQL or storage cannot be reached. What was deleted until then is deleted.
    """
    places = _places(backends, order)
    if order.is_rehearsal:
        return _swept(database, backends, order, places, grace, None, is_own_folder, seconds)
    lease = leases.take(database, leases.SWEEP, LEASE)
    if lease is None:
        raise Conflict("another process is sweeping", hint="try again in a minute")
    try:
        return _swept(database, backends, order, places, grace, lease, is_own_folder, seconds)
    finally:
        leases.end(database, lease)


def _places(backends: Backends, order: SweepOrder) -> list[ObjectRef]:
    """The backends that are left, each with the path at which to begin."""
    if order.backend is not None and order.backend not in backends.ids:
        raise NotFound(
            f"there is no storage backend {order.backend[:200]!r}",
            hint=f"there are {', '.join(backends.ids)}",
        )
    listed = [each for each in backends.ids if order.backend in (None, each)]
    if order.after is None:
        return [ObjectRef(each, "") for each in listed]
    begun = ObjectRef.parse(order.after, "")
    if begun.backend not in listed:
        message = "must be `next` of an answer to the same request"
        raise InvalidInput(f"after {message}", errors=[FieldError("after", message, "invalid")])
    return [begun, *(ObjectRef(each, "") for each in listed[listed.index(begun.backend) + 1 :])]


def _swept(
    database: Database,
    backends: Backends,
    order: SweepOrder,
    places: list[ObjectRef],
    grace: timedelta,
    lease: Lease | None,
    is_own_folder: bool,
    seconds: float,
) -> SweepResult:
    until, result = time.monotonic() + seconds, SweepResult()
    for number, begun in enumerate(places):
        storage = backends.get(begun.backend)
        if lease is not None and not begun.path:
            marks.check(database, storage, begun.backend, is_own_folder=is_own_folder, adopts=order.adopts)
        sweeper = Sweeper(database, storage, begun.backend, backends.ids, grace, lease)
        place = _sweep(sweeper, begun.path, until, result.swept)
        left = places[number:] if place is not None else places[number + 1 :]
        if left and time.monotonic() > until:
            result.next = str(ObjectRef(left[0].backend, place or left[0].path))
            return result
    return result


def _sweep(sweeper: Sweeper, after: str, until: float, swept: Swept) -> str | None:
    """Sweep pages until the time is over; where that was, None after the last page."""
    place: str | None = after
    while place is not None:
        counts, place = sweeper.page(place, until)
        swept.add(counts)
        if time.monotonic() > until:
            break
    return place
