"""How a call in a Celery worker finds and stores files: PostgreSQL says where, storage has the content."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TypeVar

from pipeweave import ids
from pipeweave.attempt import AddedAsset, StoredFile
from pipeweave.attempt.asset_values import CONTENT_TYPES
from pipeweave.errors import InvalidId
from pipeweave.orchestrator.domain import RunHeader, TaskRun
from pipeweave.orchestrator.state import asset_claims, files
from pipeweave.orchestrator.store import Database, Transaction, Values, kept_objects
from pipeweave.size_limits import MAX_ASSET_BYTES
from pipeweave.workers.consumer import reconcile

R = TypeVar("R")


class CallFiles:
    """The `FileMeans` of one call."""

    __slots__ = ("_database", "_run", "_task_run", "_values")

    def __init__(self, database: Database, values: Values, run: RunHeader, task_run: TaskRun) -> None:
        self._database = database
        self._values = values
        self._run = run
        self._task_run = task_run

    def asset(self, key: str) -> StoredFile | None:
        row = self._look(lambda tx: files.asset(tx, self._run, self._task_run.step_id, key))
        return None if row is None else StoredFile(row["path"], row["size"], row["type"])

    def uploaded(self, upload_id: str) -> StoredFile | None:
        try:
            named = ids.read(ids.UPLOAD, upload_id)
        except InvalidId:
            return None
        row = self._look(lambda tx: files.upload(tx, self._run, named))
        if row is None:
            return None
        return StoredFile(row.storage_path, row.size_bytes, row.mime_type, row.filename)

    def read(self, file: StoredFile) -> AbstractContextManager[Iterable[bytes]]:
        return kept_objects.opened(self._values, file.place)

    def put(self, key: str, asset: AddedAsset) -> Mapping[str, str]:
        """Store an asset of this attempt by its content: {path, sha256}, the path a reference."""
        backend = self._values.backends.choose(self._run.tenant, self._run.pipeline_id)
        type_ = CONTENT_TYPES[asset.type]
        kept = kept_objects.keep_file(self._values, asset.path, backend, type_, MAX_ASSET_BYTES)
        return {"path": kept.reference, "sha256": kept.sha256}

    def claim(self, assets: Mapping[str, Mapping[str, str]]) -> None:
        """Note that this attempt has the stored assets, so that they are kept; waits for PostgreSQL."""
        references = [each["path"] for each in assets.values()]
        self._look(lambda tx: asset_claims.add(tx, self._run.tenant, self._task_run, references))

    def _look(self, read: Callable[[Transaction], R]) -> R:
        def look() -> R:
            with self._database.transaction() as tx:
                return read(tx)

        return reconcile.when_it_answers(look, "files")


def folder_of(task_run: TaskRun) -> str:
    """Where an attempt stores what is its own."""
    return f"runs/{run_id_of(task_run)}"


def run_id_of(task_run: TaskRun) -> str:
    """The id of an attempt, as the lines of its log and the paths of its objects have it."""
    return f"{ids.show(ids.TASK_RUN, task_run.id)}.{task_run.attempt}"
