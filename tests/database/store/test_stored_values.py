"""Values of runs in a bucket of a real store over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.run_driver import RunDriver
from support.s3_server import a_backend, running_s3
from support.stored_values import values_in

from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.orchestrator.store.database import Database
from pipeweave.settings import Settings
from pipeweave.size_limits import INLINE_BYTES
from pipeweave.storage import Backends, S3Storage, plain_path


@pytest.fixture(scope="module")
def s3_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A store of this module."""
    with running_s3(tmp_path_factory.mktemp("s3-server")) as url:
        yield url


def a_bucket(url: str, provider: str = "minio") -> S3Storage:
    opened = Backends.of(Settings(storage_backends=(a_backend(url, provider),))).default
    assert isinstance(opened, S3Storage)
    assert opened.make_bucket()
    return opened


def test_a_large_input_goes_to_the_bucket_and_comes_back(s3_url: str, database_url: str) -> None:
    bucket = a_bucket(s3_url)
    database = Database(database_url)
    driver = RunDriver(database)
    driver.store({"a": []})
    made = [
        database.run(
            lambda tx: triggering.trigger(
                tx, values_in(bucket), driver.tenant, StartRequest("driven", "x" * INLINE_BYTES)
            )
        )
        for _ in range(2)
    ]
    path = made[0].input_path
    assert path == made[1].input_path
    assert path is not None and bucket.get(plain_path(path)) == b'"' + b"x" * INLINE_BYTES + b'"'
    assert values_in(a_bucket_again(bucket)).load(None, path) == "x" * INLINE_BYTES
    database.dispose()


def a_bucket_again(storage: S3Storage) -> S3Storage:
    """As another process would open it."""
    return S3Storage(storage.bucket)
