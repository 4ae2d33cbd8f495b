"""Fixtures of the storage tests: real stores over HTTP, and a backend of each provider."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from support.gcs_server import a_gcs_backend, running_gcs
from support.s3_server import a_backend, running_s3

from pipeweave.storage import GcsStorage, S3Storage, Storage, open_backend

PROVIDERS = ("local", "aws-s3", "minio", "gcs")

Opener = Callable[[str], Storage]


@pytest.fixture(scope="session")
def s3_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An S3-compatible store."""
    with running_s3(tmp_path_factory.mktemp("s3-server")) as url:
        yield url


@pytest.fixture(scope="session")
def gcs_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An emulator of Google Cloud Storage."""
    with running_gcs(tmp_path_factory.mktemp("gcs-server")) as url:
        yield url


@pytest.fixture(scope="session")
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Opener:
    """Opens an empty backend of a provider."""

    def open_one(provider: str) -> Storage:
        if provider == "local":
            folder = str(tmp_path_factory.mktemp("storage") / "folder")
            return open_backend({"id": "a", "provider": provider, "credentials": {"basePath": folder}})
        if provider == "gcs":
            storage = open_backend(a_gcs_backend(request.getfixturevalue("gcs_url")))
        else:
            storage = open_backend(a_backend(request.getfixturevalue("s3_url"), provider))
        assert isinstance(storage, S3Storage | GcsStorage)
        assert storage.make_bucket()
        return storage

    return open_one


@pytest.fixture(params=PROVIDERS)
def storage(request: pytest.FixtureRequest, opened: Opener) -> Storage:
    """An empty backend of each provider in turn."""
    return opened(request.param)
