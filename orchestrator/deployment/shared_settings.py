"""Checks, when a process starts, that its storage, keys and networks are those of the deployment's others.

Two processes that differ in them go on for hours and fail what they share: one stores where the other does
not look, or signs what the other does not believe. The last process that started noted what it has, as
digests; the next one compares while another process lives. When nobody does, its own settings are those of
the deployment.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import orjson

from pipeweave.errors import FieldError, InvalidSetting, Unavailable
from pipeweave.key_ring import keys_of
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.store import leases
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.settings import Settings
from pipeweave.storage import Backends

log = logging.getLogger(__name__)

# After a kill, the processes before us look alive for LOST_AFTER. Within this time (s), they do not any more.
WAITS_S = worker_processes.LOST_AFTER.total_seconds() + 1.5
_POLL_S = 0.25
# A note has at most 1,000 characters: more backends than these are not compared.
MOST_BACKENDS = 25

# A folder's digest says that it is one.
_FOLDER = "folder:"

_HINT = (
    "give every process the same value (`pipeweave env` prints it); to change it, stop all processes first, "
    "and `pipeweave doctor` compares"
)


@dataclass(frozen=True, slots=True)
class SharedSettings:
    """What a process has of what all processes must share. Secrets and places are digests.

    Args:
        by: the process that has it.
        host: where it runs; folders of different hosts are not compared, because mounts differ.
        key: of each key of PIPEWEAVE_SECRET_KEY, with WORKER_SECRETS, separated by commas; None without one.
        networks: of DISPATCH_NETWORKS.
        backends: id -> place of each storage backend, of buckets and folders alike.
        default: the id of the backend to which new values go.
    """

    by: str
    host: str
    key: str | None
    networks: str
    backends: Mapping[str, str]
    default: str

    @classmethod
    def of(cls, settings: Settings, by: str) -> SharedSettings:
        """What a process with these settings has.

        Args:
            by: its name, for people.
        """
        stores = Backends.of(settings)
        named = sorted(stores.ids, key=lambda each: (each != stores.default_id, each))
        host = socket.gethostname()
        return cls(
            by[:150],
            _digest(host),
            _key(settings),
            _digest(sorted(settings.dispatch_networks)),
            {_digest(each): _place(stores, each) for each in named[:MOST_BACKENDS]},
            _digest(stores.default_id),
        )

    def differences(self, other: SharedSettings, *, signs: bool) -> Iterator[FieldError]:
        """Where this process differs from another one.

        Args:
            signs: the deployment has HTTP services: without the key, a process cannot work for them.
        """
        whose = f"that of {other.by}"
        if not _believe(self.key, other.key) and (signs or (self.key and other.key)):
            is_missing = self.key is None
            message = f"is not set, unlike {whose}" if is_missing else f"differs from {whose}"
            yield FieldError("PIPEWEAVE_SECRET_KEY", message, "conflict")
        if self._stores_elsewhere(other):
            yield FieldError("STORAGE_BACKENDS", f"differs from {whose}", "conflict")
        if self.networks != other.networks:
            yield FieldError("DISPATCH_NETWORKS", f"differs from {whose}", "conflict")

    def _stores_elsewhere(self, other: SharedSettings) -> bool:
        """Whether one writes where the other cannot read. A backend more, or another default, is none."""
        both = self.backends.keys() & other.backends.keys()
        is_moved = any(
            self.backends[each] != other.backends[each] for each in both if self._sees(each, other)
        )
        return is_moved or not (_knows(self, other.default) and _knows(other, self.default))

    def _sees(self, backend: str, other: SharedSettings) -> bool:
        is_folder = self.backends[backend].startswith(_FOLDER) and other.backends[backend].startswith(_FOLDER)
        return not is_folder or self.host == other.host


def _knows(one: SharedSettings, backend: str) -> bool:
    return backend in one.backends or len(one.backends) == MOST_BACKENDS


def _key(settings: Settings) -> str | None:
    if settings.secret_key is None:
        return None
    purpose = f"pipeweave/shared-settings/{settings.worker_secrets}".encode()
    made = (hmac.new(each.encode(), purpose, hashlib.sha256) for each in keys_of(settings.secret_key))
    return ",".join(each.hexdigest()[:16] for each in made)


def _believe(one: str | None, other: str | None) -> bool:
    """Whether two processes accept what the other signs: by the key that each has first."""
    if one is None or other is None:
        return one == other
    keys, others = one.split(","), other.split(",")
    return keys[0] in others and others[0] in keys


def _place(stores: Backends, backend: str) -> str:
    """Where a backend is, without its credentials: they may be renewed one process after another."""
    entry = stores.entry(backend)
    if entry["provider"] == "local":
        return _FOLDER + _digest(str(Path(entry["credentials"]["basePath"]).absolute()))
    return _digest([entry["provider"], entry.get("endpoint"), entry["bucket"]])


def _digest(value: object) -> str:
    return hashlib.sha256(orjson.dumps(value)).hexdigest()[:10]


# It is no lease: nobody takes it. It is a row of the same kind: who said last what holds for all.
_NOTE = "settings"

_BEGIN = """
INSERT INTO leases (name, number, holder, ends_at) VALUES (:name, 1, :mine, now())
ON CONFLICT (name) DO NOTHING
"""

_READ = f"""
SELECT l.holder AS noted, EXISTS (SELECT 1 FROM workers AS w
        WHERE w.stopped_at IS NULL AND w.heartbeat_at >= now() - CAST(:after AS interval))
    OR EXISTS (SELECT 1 FROM leases AS t
        WHERE t.name = '{leases.TICK}' AND t.ends_at >= now() - CAST(:after AS interval)) AS lives,
    EXISTS (SELECT 1 FROM services AS s WHERE s.kind = 'http' AND s.disabled_at IS NULL) AS signs
FROM leases AS l WHERE l.name = :name
"""

_STORE = "UPDATE leases SET holder = :mine, number = number + 1, ends_at = now() WHERE name = :name"


def require_same(database: Database, settings: Settings, by: str) -> None:
    """Make sure that this process has the storage, keys and networks of the deployment's live processes.

    Waits for a few seconds while others differ, because processes that were killed look alive until then.

    Args:
        by: the name of this process, for people.

    Raises:
        InvalidSetting: it differs, with one error for each setting.
        Unavailable: PostgreSQL cannot be reached.
    """
    mine = SharedSettings.of(settings, by)
    until = time.monotonic() + WAITS_S
    is_told = False
    while differences := _noted(database, mine):
        if time.monotonic() >= until:
            detail = "; ".join(f"{each.field} {each.message}" for each in differences)
            raise InvalidSetting(detail, errors=differences, hint=_HINT)
        if not is_told:
            log.warning("settings.differ", extra={"settings": [each.field for each in differences]})
            is_told = True
        time.sleep(_POLL_S)


def require_same_if_reachable(database: Database, settings: Settings, by: str) -> None:
    """As `require_same`; a database that cannot be reached is left to the process, which waits for it.

    Raises:
        InvalidSetting: it differs.
    """
    try:
        require_same(database, settings, by)
    except Unavailable as error:
        log.warning("settings.not_compared", extra={"reason": error.detail})


def compare(database: Database, settings: Settings) -> list[FieldError]:
    """Where these settings differ from those of the live processes; empty if none lives or has noted any.

    Raises:
        Unavailable: PostgreSQL cannot be reached.
    """
    with database.statements() as tx:
        row = tx.execute(_READ, _parameters()).one_or_none()
    mine = SharedSettings.of(settings, "doctor")
    if row is None or not row.lives or (theirs := _parsed(row.noted)) is None:
        return []
    return list(mine.differences(theirs, signs=row.signs))


def _noted(database: Database, mine: SharedSettings) -> list[FieldError]:
    """Note what this process has, and return nothing; or return where it differs."""

    def compare_and_record(tx: Transaction) -> list[FieldError]:
        tx.execute(_BEGIN, {"name": _NOTE, "mine": _text(mine)})
        row = tx.execute(_READ + "FOR UPDATE OF l", _parameters()).one()
        theirs = _parsed(row.noted) if row.lives else None
        differences = [] if theirs is None else list(mine.differences(theirs, signs=row.signs))
        if not differences:
            # A process that needs no key does not make the others' forgotten.
            key = mine.key or (theirs.key if theirs else None)
            tx.execute(_STORE, {"name": _NOTE, "mine": _text(replace(mine, key=key))})
        return differences

    return database.run(compare_and_record)


def _parameters() -> dict[str, object]:
    return {"name": _NOTE, "after": worker_processes.LOST_AFTER}


def _text(what: SharedSettings) -> str:
    return orjson.dumps(asdict(what)).decode()


def _parsed(text: str) -> SharedSettings | None:
    """What a process noted; None if another version noted something else."""
    noted = orjson.loads(text)
    try:
        return SharedSettings(**{each.name: noted[each.name] for each in fields(SharedSettings)})
    except KeyError:
        return None
