"""Deletes the objects of a backend that no row refers to, a page of them at a time.

docs/decisions/0024-what-keeps-an-object.md says why this is safe beside runs that begin, and processes that
die.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from pipeweave.errors import Busy, Conflict
from pipeweave.orchestrator.objects import keepers, paths, uploads
from pipeweave.orchestrator.objects.paths import UploadPath
from pipeweave.orchestrator.store import leases
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.leases import Lease
from pipeweave.storage import ObjectInfo, ObjectRef, Storage

log = logging.getLogger(__name__)

PAGE = 500
# Paths that a report names.
EXAMPLES = 20
# One process sweeps at a time; another one goes on when it was not heard of for so long.
LEASE = timedelta(seconds=60)
# What a process wrote down to delete, it deletes within this time (s) or not at all.
DOOMED_S = 30.0


@dataclass(slots=True)
class Swept:
    """What a sweep found and did; in a rehearsal, `deleted` and `bytes` are what would be deleted.

    Args:
        young: objects that are too young to be looked up.
        unknown: objects whose paths are not ours.
        examples: some of the deleted objects, as references.
    """

    seen: int = 0
    kept: int = 0
    deleted: int = 0
    bytes: int = 0
    young: int = 0
    unknown: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, other: Swept) -> None:
        """Count what another page found."""
        for name in ("seen", "kept", "deleted", "bytes", "young", "unknown"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.examples = (self.examples + other.examples)[:EXAMPLES]


@dataclass(frozen=True, slots=True)
class Sweeper:
    """One sweep of one backend.

    Args:
        database: outside of transactions.
        backend_ids: all backends of the deployment.
        grace: objects that were written less long ago are left alone.
        lease: the right to delete; None for a rehearsal.
    """

    database: Database
    storage: Storage
    backend: str
    backend_ids: Sequence[str]
    grace: timedelta
    lease: Lease | None

    def page(self, after: str, until: float) -> tuple[Swept, str | None]:
        """Sweep the next objects.

        Args:
            after: where the page before ended; empty at first.
            until: begin with no further deletion after this time (s, monotonic clock).

        Returns:
            What was done, and where it ended; None when there are no more objects.

        Raises:
            Unavailable: PostgreSQL or storage cannot be reached. What was not deleted is found again.
        """
        listed = next_page(self.storage, after)
        if not listed:
            return Swept(), None
        doomed = self._without_keeper(listed)
        if self.lease is None or not doomed:
            return self._counted(listed, doomed), listed[-1].path
        with self._doom(sorted(doomed)) as deadline:
            return self._delete(listed, doomed, min(until, deadline))

    # --- looking ------------------------------------------------------------------------------------------

    def _without_keeper(self, listed: Sequence[ObjectInfo]) -> set[str]:
        with self.database.statements() as tx:
            if _is_month_leaving(tx):
                # The rows of a detached month cannot be seen.
                return set()
            old = {each.path for each in listed if self._is_old(tx, each) and paths.read(each.path)}
            return old - keepers.kept(tx, self.backend_ids, old)

    def _is_old(self, tx: Transaction, info: ObjectInfo) -> bool:
        return tx.now - info.modified_at >= self.grace

    def _counted(self, listed: Sequence[ObjectInfo], doomed: set[str]) -> Swept:
        swept = Swept()
        for each in listed:
            self._count(swept, each, is_deleted=each.path in doomed)
        return swept

    def _count(self, swept: Swept, info: ObjectInfo, *, is_deleted: bool) -> None:
        swept.seen += 1
        if is_deleted:
            swept.deleted += 1
            swept.bytes += info.size
            swept.examples += [str(ObjectRef(self.backend, info.path))][: EXAMPLES - len(swept.examples)]
        elif paths.read(info.path) is None:
            swept.unknown += 1
        elif self.database.now() - info.modified_at < self.grace:
            swept.young += 1
        else:
            swept.kept += 1

    # --- deleting -----------------------------------------------------------------------------------------

    def _delete(
        self, listed: Sequence[ObjectInfo], doomed: set[str], until: float
    ) -> tuple[Swept, str | None]:
        swept, last = Swept(), None
        for each in listed:
            if each.path in doomed and not self._may_go_on(until, is_first=last is None):
                break
            is_deleted = each.path in doomed and self._delete_one(each.path)
            self._count(swept, each, is_deleted=is_deleted)
            last = each.path
        return swept, last

    def _may_go_on(self, until: float, *, is_first: bool) -> bool:
        if not is_first and time.monotonic() > until:
            return False
        assert self.lease is not None
        if self.lease.is_fresh or leases.renew(self.database, self.lease):
            return True
        raise Conflict("another process began to sweep, because this one took too long")

    def _delete_one(self, path: str) -> bool:
        """Delete an object, unless somebody needs it now."""
        own = paths.read(path)
        try:
            if isinstance(own, UploadPath):
                self.database.run(lambda tx: uploads.give_up(tx, own.upload_id))
            entry = self.storage.stat(path)
            with self.database.statements() as tx:
                if entry is None or not self._is_old(tx, entry) or keepers.kept(tx, self.backend_ids, [path]):
                    return False
        except Busy:
            # A run is claiming the upload.
            return False
        self.storage.delete(path)
        log.info("object.deleted", extra={"backend": self.backend, "path": path, "size": entry.size})
        return True

    def _doom(self, doomed: list[str]) -> _Doom:
        return _Doom(self.database, self.backend, doomed)


_DOOM = """
INSERT INTO storage_sweeps (backend_id, doomed, doomed_until)
VALUES (:backend, CAST(:doomed AS text[]), clock_timestamp() + :seconds * interval '1 second')
ON CONFLICT (backend_id) DO UPDATE SET doomed = EXCLUDED.doomed, doomed_until = EXCLUDED.doomed_until
"""
_SPARE = "UPDATE storage_sweeps SET doomed = NULL, doomed_until = NULL WHERE backend_id = :backend"


class _Doom:
    """Writes down what is deleted during the block; gives the time after which nothing may be."""

    def __init__(self, database: Database, backend: str, doomed: list[str]) -> None:
        self._database = database
        self._backend = backend
        self._doomed = doomed

    def __enter__(self) -> float:
        began = time.monotonic()
        with self._database.statements() as tx:
            # Whoever needs one of them waits a little longer than they are deleted.
            parameters = {"backend": self._backend, "doomed": self._doomed, "seconds": 2 * DOOMED_S}
            tx.execute(_DOOM, parameters)
        return began + DOOMED_S

    def __exit__(self, *_: object) -> None:
        with self._database.statements() as tx:
            tx.execute(_SPARE, {"backend": self._backend})


def next_page(storage: Storage, after: str) -> list[ObjectInfo]:
    """The next objects below our prefixes, in the order of their paths; none when there are no more."""
    for prefix in paths.PREFIXES:
        if after.startswith(prefix):
            page = storage.list(prefix, after=after, limit=PAGE)
        elif after < prefix:
            page = storage.list(prefix, limit=PAGE)
        else:
            continue
        if page:
            return page
    return []


# A month that is being dropped: its tables are detached, and not dropped yet.
_LEAVING = """
SELECT EXISTS (SELECT 1 FROM pg_class AS c
    WHERE c.relnamespace = CAST(current_schema() AS regnamespace) AND c.relkind = 'r' AND NOT c.relispartition
        AND c.relname ~ '^(runs|task_runs|attempts)_[0-9]{4}_[0-9]{2}$')
"""


def _is_month_leaving(tx: Transaction) -> bool:
    return bool(tx.execute(_LEAVING).scalar_one())
