"""Real workers with a bucket for storage: no process shares a file with another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.live_stack import LiveStack, StackMaker
from support.s3_server import a_backend, running_s3

from pipeweave.storage import Backends, ObjectRef, S3Storage

HUGE: dict[str, Any] = {
    "id": "huge",
    "steps": [
        {"id": "make", "task": "misbehave", "params": {"behaviour": "huge"}},
        {"id": "measure", "task": "measure", "params": {"text": "${steps.make}"}},
    ],
}


@pytest.fixture(scope="module")
def s3_stack(make_stack: StackMaker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStack]:
    """A stack whose storage is a bucket that does not exist yet, with a worker of two children."""
    folder = tmp_path_factory.mktemp("s3-stack")
    with (
        running_s3(folder) as url,
        make_stack(folder, (a_backend(url),)) as stack,
    ):
        stack.start_worker("steps.py", concurrency=2)
        yield stack


def test_a_huge_result_goes_through_the_bucket_once_there_is_one(s3_stack: LiveStack) -> None:
    run = s3_stack.ran(HUGE)
    failed = s3_stack.steps(run.id)["make"]
    assert (run.status, failed.error_code) == ("failed", "INVALID_SETTING")
    storage = Backends.of(s3_stack.settings).default
    assert isinstance(storage, S3Storage)
    assert storage.bucket.name in failed.error["message"]

    storage.make_bucket()
    run = s3_stack.ran(HUGE)
    steps = s3_stack.steps(run.id)
    assert (run.status, steps["measure"].output) == ("completed", 3_000_000)
    where = ObjectRef.parse(steps["make"].output_path, "")
    assert (where.backend, len(storage.get(where.path))) == ("main", 3_000_002)
    assert steps["make"].output_size == 3_000_002
    assert not Path(s3_stack.settings.data_dir).exists()
    assert "hunter2" not in s3_stack.logs()
