"""How a call in a Celery worker finds and stores files: PostgreSQL says where, storage has the content."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TypeVar

from pipeweave import ids
from pipeweave.attempt import AddedAsset, StoredFile
from pipeweave.attempt.asset_values import CONTENT_TYPES
from pipeweave.errors import InvalidId
from pipeweave.orchestrator.domain import RunHeader, TaskRun
from pipeweave.orchestrator.state import files
from pipeweave.orchestrator.store import Database, Transaction, Values
from pipeweave.size_limits import MAX_ASSET_BYTES
from pipeweave.storage import ObjectRef
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
        storage, path = self._values.backends.locate(file.place)
        return storage.open(path)

    def put(self, key: str, asset: AddedAsset) -> str:
        """Store an asset of this attempt; returns its reference."""
        backend = self._values.backends.choose(self._run.tenant, self._run.pipeline_id)
        path = f"{folder_of(self._task_run)}/assets/{key}"
        with asset.path.open("rb") as file:
            self._values.backends.get(backend).put_stream(
                path, file, limit=MAX_ASSET_BYTES, content_type=CONTENT_TYPES[asset.type]
            )
        return str(ObjectRef(backend, path))

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
