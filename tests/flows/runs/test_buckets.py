"""Real workers with buckets for storage: no process shares a file with another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.gcs_server import a_gcs_backend, running_gcs
from support.live_stack import LiveStack, StackMaker
from support.s3_server import a_backend, running_s3

from pipeweave.storage import Backends, GcsStorage, ObjectRef, S3Storage


def huge(pipeline_id: str) -> dict[str, Any]:
    """A pipeline whose first step returns 3 MB."""
    return {
        "id": pipeline_id,
        "steps": [
            {"id": "make", "task": "misbehave", "params": {"behaviour": "huge"}},
            {"id": "measure", "task": "measure", "params": {"text": "${steps.make}"}},
        ],
    }


# Pipeline -> the backend of its values.
BACKENDS = {"huge": "main", "huge-at-google": "google"}


@pytest.fixture(scope="module")
def stack(make_stack: StackMaker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStack]:
    """A stack whose storage are buckets that do not exist yet, with a worker of two children."""
    folder = tmp_path_factory.mktemp("stack-with-buckets")
    with running_s3(folder) as s3, running_gcs(folder) as gcs:
        backends = (a_backend(s3), a_gcs_backend(gcs, pipelines=["huge-at-google"]))
        with make_stack(folder, backends) as stack:
            stack.start_worker("steps.py", concurrency=2)
            yield stack


@pytest.mark.parametrize(("pipeline", "backend"), BACKENDS.items())
def test_a_huge_result_goes_through_the_bucket_once_there_is_one(
    stack: LiveStack, pipeline: str, backend: str
) -> None:
    run = stack.ran(huge(pipeline))
    failed = stack.steps(run.id)["make"]
    assert (run.status, failed.error_code) == ("failed", "INVALID_SETTING")
    storage = Backends.of(stack.settings).get(backend)
    assert isinstance(storage, S3Storage | GcsStorage)
    assert storage.bucket.name in failed.error["message"]

    storage.make_bucket()
    run = stack.ran(huge(pipeline))
    steps = stack.steps(run.id)
    assert (run.status, steps["measure"].output) == ("completed", 3_000_000)
    where = ObjectRef.parse(steps["make"].output_path, "")
    assert (where.backend, len(storage.get(where.path))) == (backend, 3_000_002)
    assert steps["make"].output_size == 3_000_002
    assert not Path(stack.settings.data_dir).exists()
    assert "hunter2" not in stack.logs()
