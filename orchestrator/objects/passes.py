"""The chores of the tick for storage: a pass over each backend once an hour, a page per tick, and expired
uploads.

How far a pass has come is in its backend's row, so that any process goes on with it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipeweave.errors import Busy, Conflict, InvalidSetting, Unavailable
from pipeweave.orchestrator.objects import marks, uploads
from pipeweave.orchestrator.objects.sweep import LEASE, Sweeper, Swept
from pipeweave.orchestrator.store import leases
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.isolation import Unfinished, check_database
from pipeweave.orchestrator.store.leases import Lease
from pipeweave.storage import Backends

log = logging.getLogger(__name__)

EVERY = timedelta(hours=1)
# A page of a tick takes about this long (s) at most, as far as the storage answers.
PAGE_S = 2.0


@dataclass(frozen=True, slots=True)
class _StoragePass:
    """A pass that is due or under way. `last_path` is None before its first page."""

    backend: str
    last_path: str | None


def run_once(database: Database, backends: Backends, grace_hours: int, *, is_own_folder: bool) -> int:
    """Sweep the next page of a backend whose pass is due or under way; at most about PAGE_S.

    Storage that is away, or is not this deployment's, is left alone and looked at again later.

    Returns:
        How many objects were deleted.

    Raises:
        Unavailable: PostgreSQL cannot be reached.
    """
    lease = leases.take(database, leases.SWEEP, LEASE)
    due = None if lease is None else _due(database, backends.ids)
    if lease is None or due is None:
        return 0 if lease is None else _ended(database, lease, 0)
    try:
        deleted = _page(database, backends, due, grace_hours, lease, is_own_folder)
        return _ended(database, lease, Unfinished(deleted))
    except (Unavailable, InvalidSetting, Conflict) as error:
        check_database(database, error)
        if not isinstance(error, Busy):
            log.warning("storage.not_swept", extra={"backend": due.backend, "reason": error.detail})
            _give_up(database, due.backend, error.detail)
        return _ended(database, lease, 0)


def _ended(database: Database, lease: Lease, deleted: int) -> int:
    leases.end(database, lease)
    return deleted


_ROWS = "SELECT backend_id, last_path, finished_at FROM storage_sweeps"


def _due(database: Database, backend_ids: Iterable[str]) -> _StoragePass | None:
    """The pass that is under way; else the next that is due, of a backend that is configured."""
    with database.statements() as tx:
        rows = {row.backend_id: row for row in tx.execute(_ROWS)}
        now = tx.now
    known = [(each, rows.get(each)) for each in backend_ids]
    under_way = [
        _StoragePass(name, row.last_path) for name, row in known if row and row.last_path is not None
    ]
    waiting = [_StoragePass(name, None) for name, row in known if _is_due(row and row.finished_at, now)]
    return next(iter(under_way + waiting), None)


def _is_due(finished_at: datetime | None, now: datetime) -> bool:
    return finished_at is None or now - finished_at >= EVERY


def _page(
    database: Database,
    backends: Backends,
    due: _StoragePass,
    grace_hours: int,
    lease: Lease,
    is_own_folder: bool,
) -> int:
    if due.last_path is None:
        _begin(database, due.backend)
    storage = backends.get(due.backend)
    if due.last_path is None:
        marks.check(database, storage, due.backend, is_own_folder=is_own_folder)
    sweeper = Sweeper(database, storage, due.backend, backends.ids, timedelta(hours=grace_hours), lease)
    swept, place = sweeper.page(due.last_path or "", time.monotonic() + PAGE_S)
    _record(database, due.backend, swept, place)
    return swept.deleted


_BEGIN = """
INSERT INTO storage_sweeps (backend_id, began_at, finished_at) VALUES (:backend, :now, :now)
ON CONFLICT (backend_id) DO UPDATE SET began_at = :now, finished_at = :now, seen = 0, deleted = 0,
    deleted_bytes = 0
"""


def _begin(database: Database, backend: str) -> None:
    """Note a pass as ended that has come nowhere yet: if it fails at once, the next one is an hour away."""
    with database.statements() as tx:
        tx.execute(_BEGIN, {"backend": backend, "now": tx.now})


_GIVE_UP = """
UPDATE storage_sweeps SET last_path = NULL, finished_at = :now, error = :error WHERE backend_id = :backend
"""


def _give_up(database: Database, backend: str, error: str) -> None:
    """End a pass that cannot go on, so that it is the turn of the other backends."""
    with database.statements() as tx:
        tx.execute(_GIVE_UP, {"backend": backend, "now": tx.now, "error": error[:1000]})


_RECORD = """
UPDATE storage_sweeps SET last_path = :place, seen = seen + :seen, deleted = deleted + :deleted,
    deleted_bytes = deleted_bytes + :bytes, finished_at = :now, error = NULL
WHERE backend_id = :backend RETURNING seen, deleted, deleted_bytes
"""


def _record(database: Database, backend: str, swept: Swept, place: str | None) -> None:
    parameters = {
        "backend": backend,
        "place": place,
        "seen": swept.seen,
        "deleted": swept.deleted,
        "bytes": swept.bytes,
    }
    with database.statements() as tx:
        row = tx.execute(_RECORD, parameters | {"now": tx.now}).one()
    if place is None and row.deleted:
        extra = {"backend": backend, "seen": row.seen, "deleted": row.deleted, "bytes": row.deleted_bytes}
        log.info("storage.swept", extra=extra)


def expire_uploads(database: Database, backends: Backends) -> int:
    """Delete a batch of the uploads that expired before a run claimed them: first their rows say so.

    An object that cannot be deleted now is left to the sweep.

    Returns:
        How many uploads expired.
    """
    expired = database.run(uploads.expire)
    for place, reference in enumerate(expired):
        try:
            storage, path = backends.locate(reference)
            storage.delete(path)
        except (Unavailable, InvalidSetting) as error:
            extra = {"reason": error.detail, "objects": len(expired) - place}
            log.warning("uploads.left_to_the_sweep", extra=extra)
            break
    return len(expired)
