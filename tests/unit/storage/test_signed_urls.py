"""URLs that read or write one object without credentials."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest
import urllib3
from support.gcs_server import a_gcs_backend, an_account

from pipeweave.storage import Storage, open_backend

PATH = "runs/a/é and +a%20 space?.json"


@pytest.fixture(params=["aws-s3", "minio", "gcs"])
def signing(request: pytest.FixtureRequest, opened: Callable[[str], Storage]) -> Storage:
    """A bucket whose backend can sign; the emulator of Google's store takes every signature."""
    if request.param != "gcs":
        return opened(request.param)
    entry = a_gcs_backend(request.getfixturevalue("gcs_url"))
    open_backend(entry).make_bucket()
    return open_backend({**entry, "credentials": an_account()})


def test_a_signed_url_writes_and_reads_one_object(signing: Storage) -> None:
    put, get = (signing.presign(PATH, method=method, seconds=60) for method in ("PUT", "GET"))
    assert put and get
    with urllib3.PoolManager(retries=False) as http:
        assert http.request("PUT", put, body=b"from outside").status == 200
        answer = http.request("GET", get)
        assert (answer.status, answer.data) == (200, b"from outside")


def test_a_signed_url_is_for_one_object_one_method_and_a_time(signing: Storage) -> None:
    urls = {
        (path, method): signing.presign(path, method=method, seconds=90)
        for path in ("a", "b")
        for method in ("GET", "PUT")
    }
    signatures = set()
    for url in urls.values():
        assert url is not None
        (prefix,) = {name.rpartition("-Signature")[0] for name in parse_qs(urlsplit(url).query)} - {""}
        query = {name: value[0] for name, value in parse_qs(urlsplit(url).query).items()}
        assert query[f"{prefix}-Expires"] == "90"
        signatures.add(query[f"{prefix}-Signature"])
    assert len(signatures) == 4


def test_no_url_is_valid_for_more_than_a_week(signing: Storage) -> None:
    url = signing.presign("a", method="GET", seconds=10_000_000)
    assert url is not None and "Expires=604800" in url


def test_no_url_holds_a_secret(signing: Storage) -> None:
    url = signing.presign("a", method="GET", seconds=60)
    assert url is not None
    assert not [each for each in ("hunter2", "PRIVATE", an_account()["privateKey"][40:80]) if each in url]


@pytest.mark.parametrize("provider", ["local", "gcs"])
def test_a_folder_and_an_emulator_without_accounts_sign_nothing(
    provider: str, opened: Callable[[str], Storage]
) -> None:
    assert opened(provider).presign("a", method="GET", seconds=60) is None
