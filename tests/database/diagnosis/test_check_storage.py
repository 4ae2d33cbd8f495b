"""Doctor says where old objects are not deleted, and why."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.memory_storage import MemoryStorage

from pipeweave import ids
from pipeweave.orchestrator.diagnosis import check_storage
from pipeweave.orchestrator.diagnosis.doctor import Severity
from pipeweave.orchestrator.objects import passes
from pipeweave.orchestrator.store.database import Database
from pipeweave.settings import Settings
from pipeweave.storage import Backends


def test_a_backend_that_is_not_swept_is_a_warning(
    fresh_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(database_url=fresh_database.url, data_dir=str(tmp_path))
    storage = MemoryStorage({f"pipelines/{ids.show(ids.RUN, ids.new_id())}/input.json": b"{}"})

    def tick(*, is_own_folder: bool) -> None:
        passes.run_once(fresh_database, Backends.only(storage), 24, is_own_folder=is_own_folder)

    assert check_storage.swept(settings).line == "no pass yet"
    tick(is_own_folder=False)
    verdict = check_storage.swept(settings)
    assert verdict.level is Severity.WARNING
    assert "local: the objects in storage backend 'local' may be of another deployment" in verdict.line
    with fresh_database.transaction() as tx:
        tx.execute("UPDATE storage_sweeps SET finished_at = now() - interval '2 h'")
    tick(is_own_folder=True)
    verdict = check_storage.swept(settings)
    assert (verdict.level, verdict.line[:33]) == (Severity.OK, "the tick looks for old objects, l")
