"""What becomes of a store's refusals, and what never leaves: credentials."""

from __future__ import annotations

import hashlib
import sys
import traceback
from base64 import b64decode
from dataclasses import replace

import pytest
from support.stub_http_server import Served

from pipeweave.errors import InvalidSetting, NotFound, PipeWeaveError, Unavailable
from pipeweave.settings import Settings
from pipeweave.storage import Backends, gate, s3
from pipeweave.storage.s3 import S3Storage
from pipeweave.storage.s3_bucket import S3Bucket
from pipeweave.up.ports import free_port

SECRETS = ("an-access-key", "hunter2", "a-session-token")
AMAZON = {
    "id": "main",
    "provider": "aws-s3",
    "bucket": "values",
    "credentials": dict(zip(("accessKeyId", "secretAccessKey", "sessionToken"), SECRETS, strict=True)),
}


def a_store(url: str) -> S3Storage:
    bucket = replace(S3Bucket.of(AMAZON), endpoint=url, is_path_style=True)
    return S3Storage(bucket)


def refusal(code: str) -> bytes:
    """As a store words it, quoting what it was sent."""
    return f"<Error><Code>{code}</Code><Message>{' '.join(SECRETS)}</Message></Error>".encode()


def failing(storage: S3Storage, kind: type[PipeWeaveError]) -> PipeWeaveError:
    """The error of getting an object, which holds no secret."""
    with pytest.raises(kind) as caught:
        storage.get("a")
    said = "".join(traceback.format_exception(caught.value)) + str(caught.value.to_problem())
    assert not [secret for secret in SECRETS if secret in said]
    return caught.value


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (403, "AccessDenied"),
        (403, "InvalidAccessKeyId"),
        (403, "SignatureDoesNotMatch"),
        (400, "ExpiredToken"),
        (400, "AuthorizationHeaderMalformed"),
        (404, "NoSuchBucket"),
    ],
)
def test_a_refusal_names_the_bucket_and_the_setting(served: Served, status: int, code: str) -> None:
    served.put("GET /values/a", (status, refusal(code)))
    error = failing(a_store(served.url), InvalidSetting)
    assert "'values'" in error.detail
    assert [each.field for each in error.errors] == ["STORAGE_BACKENDS"]
    assert code == "NoSuchBucket" or code in error.detail
    assert error.hint


def test_a_missing_object_is_not_found(served: Served) -> None:
    served.put("GET /values/a", (404, refusal("NoSuchKey")))
    failing(a_store(served.url), NotFound)


def test_a_store_in_trouble_is_asked_again_a_few_times(served: Served) -> None:
    served.put("GET /values/a", (503, refusal("SlowDown")), (200, b"1"))
    assert a_store(served.url).get("a") == b"1"


def test_a_store_that_stays_in_trouble_is_unavailable(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The pauses between the attempts are left to chance.
    monkeypatch.setattr(gate, "PATIENCE_S", 60.0)
    served.put("GET /values/a", (503, refusal("SlowDown")))
    error = failing(a_store(served.url), Unavailable)
    assert served.url in str(error.hint)
    assert len(served.asked) == s3.MAX_ATTEMPTS


def test_a_store_that_nobody_runs_is_unavailable() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    error = failing(a_store(url), Unavailable)
    assert url in str(error.hint)


def test_a_store_that_does_not_answer_is_unavailable_in_bounded_time(
    silent_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "READ_TIMEOUT_S", 0.1)
    failing(a_store(silent_url), Unavailable)


def test_the_timeouts_are_bounded() -> None:
    assert (s3.CONNECT_TIMEOUT_S, s3.READ_TIMEOUT_S, s3.MAX_ATTEMPTS) == (2, 10, 3)


@pytest.fixture
def silent_url() -> object:
    """A port that takes connections and says nothing."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_a_repr_shows_no_credentials() -> None:
    shown = repr(Backends.of(Settings(storage_backends=(AMAZON,))))
    assert "values" in shown
    assert not [secret for secret in SECRETS if secret in shown]


@pytest.mark.parametrize(
    ("members", "url"),
    [
        ({}, "https://values.s3.amazonaws.com/a"),
        ({"endpoint": "https://s3.amazonaws.com"}, "https://values.s3.amazonaws.com/a"),
        (
            {"endpoint": "https://s3.amazonaws.com", "region": "eu-central-1"},
            "https://values.s3.eu-central-1.amazonaws.com/a",
        ),
        ({"endpoint": "https://s3.example.com"}, "https://values.s3.example.com/a"),
        (
            {
                "provider": "minio",
                "endpoint": "http://s3.example.com:9000",
                "credentials": {"accessKey": "k", "secretKey": "s"},
            },
            "http://s3.example.com:9000/values/a",
        ),
    ],
)
def test_a_bucket_is_addressed_as_its_provider_does_it(
    members: dict[str, object], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://elsewhere.example.com")
    storage = Backends.of(Settings(storage_backends=({**AMAZON, **members},))).default
    assert isinstance(storage, S3Storage)
    with storage._client() as client:
        signed = client.generate_presigned_url("get_object", {"Bucket": "values", "Key": "a"})
    assert signed.partition("?")[0] == url


def test_boto3_is_asked_for_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(InvalidSetting, match="boto3") as caught:
        Backends.of(Settings(storage_backends=(AMAZON,)))
    assert "pipeweave[s3]" in str(caught.value.hint)


def test_a_provider_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="ftp"):
        Backends.of(Settings(storage_backends=({**AMAZON, "provider": "ftp"},)))


def test_what_is_sent_has_a_checksum_that_every_store_verifies(served: Served) -> None:
    served.put("PUT /values/a", (200, b""))
    a_store(served.url).put("a", b"content", content_type="text/plain")
    [(_, headers, _)] = served.asked
    assert b64decode(headers["Content-MD5"]) == hashlib.md5(b"content").digest()
    assert headers["Content-Type"] == "text/plain"
