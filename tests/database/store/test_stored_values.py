"""Every storage backend behaves the same: files in a folder, and buckets of a real store over HTTP."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.run_driver import RunDriver
from support.s3_server import a_backend, running_s3
from support.stored_values import values_in

from pipeweave.errors import InvalidInput, InvalidSetting, NotFound
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.runs.triggering import Trigger
from pipeweave.orchestrator.store.database import Database
from pipeweave.settings import Settings, load
from pipeweave.size_limits import INLINE_BYTES
from pipeweave.storage import Backends, LocalStorage, S3Storage, Storage, plain_path
from pipeweave.storage.__main__ import main

PATH = "artifacts/sha256/ab/é and a space"


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


@pytest.fixture(params=["local", "minio", "aws-s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "local":
        return LocalStorage(tmp_path / "storage")
    return a_bucket(request.getfixturevalue("s3_url"), request.param)


@pytest.mark.parametrize("content", [b"", b"\0\xff\r\n", b"x" * 3_000_000], ids=["empty", "bytes", "large"])
def test_an_object_comes_back_as_it_was_put(storage: Storage, content: bytes) -> None:
    storage.put(PATH, content)
    assert storage.get(PATH) == content
    assert storage.exists(PATH)


def test_putting_the_same_content_again_changes_nothing(storage: Storage) -> None:
    storage.put(PATH, b"1")
    storage.put(PATH, b"1")
    assert storage.get(PATH) == b"1"


def test_an_object_that_is_not_there_is_not_found_and_deleting_it_is_nothing(storage: Storage) -> None:
    assert not storage.exists(PATH)
    storage.delete(PATH)
    with pytest.raises(NotFound, match="é and a space") as caught:
        storage.get(PATH)
    assert caught.value.context == {"path": PATH}


def test_a_deleted_object_is_gone_and_its_neighbour_stays(storage: Storage) -> None:
    storage.put("a/b", b"1")
    storage.put("a/bc", b"2")
    storage.delete("a/b")
    assert (storage.exists("a/b"), storage.get("a/bc")) == (False, b"2")


def test_a_prefix_of_an_object_path_is_no_object(storage: Storage) -> None:
    storage.put("a/b", b"1")
    assert not storage.exists("a")
    with pytest.raises(NotFound):
        storage.get("a")


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../beside", "a/../../beside", "a//b", "a/.", "a\0b"])
def test_a_path_that_could_leave_the_storage_is_refused(storage: Storage, path: str) -> None:
    for use in (storage.get, storage.exists, storage.delete, lambda each: storage.put(each, b"")):
        with pytest.raises(InvalidInput, match="not a path inside"):
            use(path)


def test_a_child_that_was_forked_has_connections_of_its_own(s3_url: str) -> None:
    storage = a_bucket(s3_url)
    storage.put("a", b"parent")
    before = storage._connected
    child = os.fork()
    if not child:
        try:
            os._exit(int(not (storage.get("a") == b"parent" and storage._connected is not before)))
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert storage.get("a") == b"parent"


@pytest.mark.parametrize("provider", ["minio", "aws-s3"])
def test_a_bucket_that_is_missing_is_named(s3_url: str, provider: str) -> None:
    backend = a_backend(s3_url, provider)
    storage = Backends.of(Settings(storage_backends=(backend,))).default
    for use in (storage.get, storage.delete, lambda each: storage.put(each, b"")):
        with pytest.raises(InvalidSetting, match=backend["bucket"]) as caught:
            use("a")
        assert "python -m pipeweave.storage" in str(caught.value.hint)


def test_the_bucket_is_created_once(
    s3_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    backend = a_backend(s3_url, region="eu-central-1")
    monkeypatch.setenv("STORAGE_BACKENDS", json.dumps([backend]))
    assert (main(), main()) == (0, 0)
    assert capsys.readouterr().out.splitlines() == [
        f"Bucket {backend['bucket']} created.",
        f"Bucket {backend['bucket']} exists.",
    ]
    Backends.of(load()).default.put("a", b"1")


def test_a_large_input_goes_to_the_bucket_and_comes_back(s3_url: str, database_url: str) -> None:
    bucket = a_bucket(s3_url)
    database = Database(database_url)
    driver = RunDriver(database)
    driver.store({"a": []})
    made = [
        database.run(
            lambda tx: triggering.trigger(
                tx, values_in(bucket), driver.tenant, Trigger("driven", "x" * INLINE_BYTES)
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
