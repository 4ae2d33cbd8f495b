"""Writes months of history to storage: parts with gzipped lines of JSON, and a manifest that names the parts.

`archive/runs/2026-03/manifest.json` is written last. Parts without a manifest were left by a process that
died; the next process writes them again, under the same names. `archive/runs/index.json` lists the manifests.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from pipeweave import ids
from pipeweave.errors import NotFound
from pipeweave.orchestrator.domain.json_shapes import iso, run_id
from pipeweave.orchestrator.domain.months import Month
from pipeweave.orchestrator.retention import archive_format, partitions
from pipeweave.orchestrator.retention.archive_format import HISTORY_TABLES, Line
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.storage import Storage

FOLDER = "archive/runs"
INDEX = f"{FOLDER}/index.json"
FORMAT = 1
# A part is held in memory, both when it is written and when it is read back; so its size is bounded (bytes).
PART_BYTES = 8 * 1024 * 1024

# zlib's wbits for a gzip header. zlib leaves the header's time empty: equal content gives equal files.
_GZIP = 31


@dataclass(frozen=True, slots=True)
class RowCounts:
    """The number of rows of each history table."""

    runs: int = 0
    task_runs: int = 0
    attempts: int = 0
    events: int = 0
    signals: int = 0

    @classmethod
    def of_json(cls, document: Mapping[str, int]) -> RowCounts:
        # An archive of an earlier version has no signals.
        return cls(*(document.get(kind.name, 0) for kind in HISTORY_TABLES))

    def to_json(self) -> dict[str, int]:
        return dict(zip((kind.name for kind in HISTORY_TABLES), astuple(self), strict=True))


@dataclass(frozen=True, slots=True)
class ArchivePart:
    """One file of an archive. `sha256` and `size` (bytes) are those of the compressed file in storage."""

    path: str
    sha256: str
    size: int
    lines: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of one archive of a month. `first_run` is None for a month without runs."""

    path: str
    month: Month
    counts: RowCounts
    parts: tuple[ArchivePart, ...]
    first_run: UUID | None
    archived_at: str

    def to_json(self) -> Document:
        return {
            "format": FORMAT,
            "path": self.path,
            "month": str(self.month),
            "archivedAt": self.archived_at,
            "firstRunId": None if self.first_run is None else run_id(self.first_run),
            **self.counts.to_json(),
            "parts": [asdict(each) for each in self.parts],
        }

    @classmethod
    def of_json(cls, document: Mapping[str, Any]) -> Manifest:
        first = document["firstRunId"]
        return cls(
            document["path"],
            Month.parse(document["month"]),
            RowCounts.of_json(document),
            tuple(ArchivePart(**each) for each in document["parts"]),
            None if first is None else ids.read(ids.RUN, first),
            document["archivedAt"],
        )


_COUNT = "SELECT count(*) FROM {table}"


def count_rows(tx: Transaction, month: Month) -> RowCounts:
    """Count the rows in a month's partitions, attached or detached. It reads all of them."""
    return RowCounts(*(_count(tx, month.table(kind.table)) for kind in HISTORY_TABLES))


def _count(tx: Transaction, name: str) -> int:
    return int(tx.execute(_COUNT.format(table=name)).scalar_one()) if partitions.exists(tx, name) else 0


def archive_month(database: Database, storage: Storage, month: Month) -> Manifest:
    """Archive a month as it is in the tables now, unless an archive with the same row counts is there.

    An archive with other counts is written again.

    Raises:
        Unavailable: PostgreSQL or storage cannot be reached.
    """
    # Not in a transaction: storage may take longer than a session may be silent in one.
    with database.statements() as tx:
        counts, now = count_rows(tx, month), tx.now
        folder, known = _choose_folder(tx, storage, month)
    if known is None or known.counts != counts:
        if known is not None:
            storage.delete(known.path)
        known = _write(database, storage, month, folder, now)
    _add_to_index(storage, known)
    return known


def list_archives(storage: Storage) -> list[Manifest]:
    """Every archive in storage, by month; the archives of one month in the order they were written."""
    try:
        paths = orjson.loads(storage.get(INDEX))["archives"]
    except NotFound:
        return []
    manifests = [_read(storage, path) for path in paths]
    return sorted(filter(None, manifests), key=lambda each: (each.month, len(each.path), each.path))


# --- folder and index -------------------------------------------------------------------------------------


def _choose_folder(tx: Transaction, storage: Storage, month: Month) -> tuple[str, Manifest | None]:
    """The folder to archive a month in, and the archive that is already there.

    New runs of a dropped month may appear later (a wrong clock, a new database). An archive whose first run
    is no longer in the tables is the only copy of its runs: it is not overwritten, the next folder is taken.
    """
    number = 1
    while True:
        folder = f"{FOLDER}/{month}" if number == 1 else f"{FOLDER}/{month}.{number}"
        known = _read(storage, f"{folder}/manifest.json")
        if known is None or known.first_run is None:
            return folder, known
        if _has_run(tx, month, known.first_run):
            return folder, known
        number += 1


_RUN = "SELECT 1 FROM {table} WHERE id = :id"


def _has_run(tx: Transaction, month: Month, run_id: UUID) -> bool:
    """Whether a run is in the month's partition of `runs`, attached or detached."""
    return tx.execute(_RUN.format(table=month.table("runs")), {"id": run_id}).first() is not None


def _read(storage: Storage, path: str) -> Manifest | None:
    try:
        return Manifest.of_json(orjson.loads(storage.get(path)))
    except NotFound:
        return None


def _add_to_index(storage: Storage, manifest: Manifest) -> None:
    try:
        paths = set(orjson.loads(storage.get(INDEX))["archives"])
    except NotFound:
        paths = set()
    if manifest.path not in paths:
        storage.put(INDEX, orjson.dumps({"format": FORMAT, "archives": sorted(paths | {manifest.path})}))


# --- writing ----------------------------------------------------------------------------------------------


def _write(database: Database, storage: Storage, month: Month, folder: str, now: datetime) -> Manifest:
    counts: Counter[str] = Counter()
    first: UUID | None = None
    parts: list[ArchivePart] = []
    part = _PartWriter(f"{folder}/part-00001.ndjson.gz")
    for line in archive_format.lines(database, month):
        if part.is_full:
            parts.append(part.put(storage))
            part = _PartWriter(f"{folder}/part-{len(parts) + 1:05}.ndjson.gz")
        part.add(line)
        counts.update(line.counts)
        if first is None and line.counts["runs"]:
            first = line.run_id
    if part.lines:
        parts.append(part.put(storage))
    path = f"{folder}/manifest.json"
    manifest = Manifest(path, month, RowCounts.of_json(counts), tuple(parts), first, iso(now) or "")
    storage.put(path, orjson.dumps(manifest.to_json(), option=orjson.OPT_INDENT_2))
    return manifest


@dataclass(slots=True)
class _PartWriter:
    """A part that is being written, in memory."""

    path: str
    lines: int = 0
    _content: bytearray = field(default_factory=bytearray)
    _gzip: Any = field(default_factory=lambda: zlib.compressobj(wbits=_GZIP))

    @property
    def is_full(self) -> bool:
        return len(self._content) >= PART_BYTES

    def add(self, line: Line) -> None:
        self._content += self._gzip.compress(line.content)
        self.lines += 1

    def put(self, storage: Storage) -> ArchivePart:
        content = bytes(self._content + self._gzip.flush())
        storage.put(self.path, content)
        return ArchivePart(self.path, hashlib.sha256(content).hexdigest(), len(content), self.lines)


def find_run(storage: Storage, run_id: UUID) -> Document | None:
    """The document of a run in the archives of its month; None if none has it.

    Raises:
        NotFound: a part is no longer in storage.
    """
    month, shown = Month.of_id(run_id), ids.show(ids.RUN, run_id)
    for each in list_archives(storage):
        lines = read_lines(storage, each) if each.month == month else iter(())
        if (line := next((one for one in lines if one["runId"] == shown and one["run"]), None)) is not None:
            document: Document = line["run"]
            return document
    return None


# --- reading an archive -----------------------------------------------------------------------------------


def read_lines(storage: Storage, manifest: Manifest) -> Iterator[Document]:
    """Read the lines of an archive.

    Raises:
        NotFound: a part is no longer in storage.
    """
    for part in manifest.parts:
        for line in zlib.decompress(storage.get(part.path), wbits=_GZIP).splitlines():
            yield orjson.loads(line)
