"""Makes sure that a storage backend is this deployment's before anything in it is deleted.

Two deployments with one bucket would delete what the other one needs, and so would a new database in front
of an old bucket. So the backend holds a mark, and the row of the backend says what it must be.
"""

from __future__ import annotations

import secrets
from datetime import timedelta

import orjson

from pipeweave.errors import Conflict, NotFound
from pipeweave.orchestrator.objects import paths
from pipeweave.orchestrator.store.database import Database
from pipeweave.storage import Storage

PATH = "storage-owner.json"
# The age of an object is told by the storage's clock, and judged by PostgreSQL's.
CLOCKS_MAY_DIFFER = timedelta(minutes=10)

_MEMBER = "deployment"


def check(
    database: Database, storage: Storage, backend: str, *, is_own_folder: bool, adopts: bool = False
) -> None:
    """Check the mark of a backend, and write it anew.

    Args:
        is_own_folder: the backend is the folder that deployments have without STORAGE_BACKENDS; without a
            mark, its objects are of an older version of this deployment.
        adopts: an operator says that the objects are this deployment's.

    Raises:
        Conflict: the backend has objects and not the mark of this deployment; or the clocks differ. Nothing
            may be deleted.
        Unavailable: PostgreSQL or storage cannot be reached.
    """
    expected, mark = _expected(database, backend), _marked_by(storage)
    if not _may_mark(storage, expected, mark, is_own_folder=is_own_folder or adopts, adopts=adopts):
        raise Conflict(
            f"the objects in storage backend {backend!r} may be of another deployment; nothing was deleted",
            hint=f"if they are this one's alone: `pipeweave storage sweep --backend {backend} --adopt`",
            backend=backend,
        )
    _write(database, storage, backend, expected or secrets.token_hex(16))
    _check_clock(database, storage, backend)


def _may_mark(
    storage: Storage, expected: str | None, mark: str | None, *, is_own_folder: bool, adopts: bool
) -> bool:
    if mark is not None:
        return mark == expected or adopts
    return is_own_folder or not any(storage.list(prefix, limit=1) for prefix in paths.PREFIXES)


_EXPECTED = "SELECT mark FROM storage_sweeps WHERE backend_id = :backend"


def _expected(database: Database, backend: str) -> str | None:
    with database.statements() as tx:
        mark = tx.execute(_EXPECTED, {"backend": backend}).scalar_one_or_none()
    return None if mark is None else str(mark)


def _marked_by(storage: Storage) -> str | None:
    """What the mark in storage says; an unreadable mark is of nobody we know."""
    try:
        return str(orjson.loads(storage.get(PATH, limit=1_000))[_MEMBER])
    except NotFound:
        return None
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return ""


_STORE = """
INSERT INTO storage_sweeps AS s (backend_id, mark) VALUES (:backend, :mark)
ON CONFLICT (backend_id) DO UPDATE SET mark = coalesce(s.mark, EXCLUDED.mark) RETURNING s.mark
"""


def _write(database: Database, storage: Storage, backend: str, mark: str) -> None:
    with database.statements() as tx:
        stored = tx.execute(_STORE, {"backend": backend, "mark": mark}).scalar_one()
    storage.put(PATH, orjson.dumps({_MEMBER: stored}), content_type="application/json")


def _check_clock(database: Database, storage: Storage, backend: str) -> None:
    written = storage.stat(PATH)
    apart = None if written is None else abs(database.now() - written.modified_at)
    if apart is None or apart > CLOCKS_MAY_DIFFER:
        raise Conflict(
            f"the clocks of PostgreSQL and storage backend {backend!r} differ by {apart}",
            hint="nothing was deleted; correct the clock that is wrong",
            backend=backend,
        )
