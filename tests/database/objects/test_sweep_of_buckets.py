"""The sweep on real stores: pages, marks and clocks as S3 and Google's emulator tell them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from support.gcs_server import a_gcs_backend, running_gcs
from support.run_driver import RunDriver
from support.s3_server import a_backend, running_s3

from pipeweave import ids
from pipeweave.errors import Conflict
from pipeweave.orchestrator.objects import marks, passes, requested_sweep, sweep
from pipeweave.orchestrator.objects.requested_sweep import SweepOrder
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.values import Values
from pipeweave.size_limits import INLINE_BYTES
from pipeweave.storage import Backends, GcsStorage, LocalStorage, S3Storage
from pipeweave.up.ports import free_port

LARGE = {"text": "x" * INLINE_BYTES}


@pytest.fixture(params=["local", "aws-s3", "gcs"])
def backends(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backends]:
    """One empty backend of each provider in turn."""
    if request.param == "local":
        entry = {"id": "main", "provider": "local", "credentials": {"basePath": str(tmp_path / "objects")}}
        yield Backends([entry])
        return
    running = running_s3 if request.param == "aws-s3" else running_gcs
    with running(tmp_path) as url:
        entry = a_backend(url, "aws-s3") if request.param == "aws-s3" else a_gcs_backend(url)
        opened = Backends([entry])
        bucket = opened.default
        assert isinstance(bucket, S3Storage | GcsStorage)
        bucket.make_bucket()
        yield opened


def run(driver: RunDriver, order: SweepOrder | None = None) -> requested_sweep.SweepResult:
    """A sweep for which everything is old, however much the clocks of store and PostgreSQL differ."""
    return requested_sweep.run(
        driver.database,
        driver.values.backends,
        order or SweepOrder(),
        grace=timedelta(minutes=-1),
        is_own_folder=False,
    )


def test_a_bucket_is_swept_in_pages(
    fresh_database: Database, backends: Backends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "PAGE", 3)
    storage = backends.default
    driver = RunDriver(fresh_database, values=Values(backends))
    driver.store({"a": []})
    assert run(driver).swept.seen == 0
    assert storage.exists(marks.PATH)
    run_id = driver.trigger(input=LARGE)
    kept = str(driver.run(run_id).input_path).split("//")[1]
    own = f"pipelines/{ids.show(ids.RUN, run_id)}/input.json"
    gone = [f"runs/{ids.show(ids.TASK_RUN, ids.task_run_id(ids.new_id(), 1))}.1/a b+ü/{n}" for n in range(7)]
    foreign = ["archive/runs/index.json", "zebra.txt"]
    for path in (own, *gone, *foreign):
        storage.put(path, b"{}")
    found = run(driver).swept
    assert (found.seen, found.kept, found.deleted, found.bytes) == (9, 2, 7, 14)
    left = {each.path for each in storage.list(limit=100)}
    assert left == {kept, own, *foreign, marks.PATH}


def test_another_database_leaves_a_bucket_alone(fresh_database: Database, backends: Backends) -> None:
    driver = RunDriver(fresh_database, values=Values(backends))
    run(driver)
    backends.default.put(f"pipelines/{ids.show(ids.RUN, ids.new_id())}/input.json", b"{}")
    driver.rows("DELETE FROM storage_sweeps RETURNING 1")
    with pytest.raises(Conflict, match="another deployment"):
        run(driver)
    assert run(driver, SweepOrder(is_rehearsal=True)).swept.deleted == 1
    assert run(driver, SweepOrder(adopts=True)).swept.deleted == 1


def test_a_store_that_does_not_answer_does_not_stop_the_tick(
    fresh_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other backend gets its turn."""
    away = a_backend(f"http://127.0.0.1:{free_port()}", id="away")
    here = {"id": "here", "provider": "local", "credentials": {"basePath": str(tmp_path)}}
    backends = Backends([away, here])
    swept = []
    for _ in range(2):
        swept.append(passes.run_once(fresh_database, backends, 24, is_own_folder=False))
    assert swept == [0, 0]
    assert LocalStorage(tmp_path).exists(marks.PATH)
