"""An HTTP worker with a storage token writes to a bucket itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.fake_orchestrator import SECRET, FakeOrchestrator, Serve
from support.s3_server import running_s3

from pipeweave import Context, task
from pipeweave.storage import Backends, tokens
from pipeweave.storage.s3 import S3Storage


@task
def double(ctx: Context, text: str) -> str:
    ctx.add_asset("text", ctx.get_asset("before") + text)
    return text * 20_000


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[tuple[str, S3Storage]]:
    """A storage token for a bucket, and the bucket."""
    with running_s3(tmp_path) as url:
        entry = {
            "id": "main",
            "provider": "minio",
            "endpoint": url,
            "bucket": "values",
            "credentials": {"accessKey": "user", "secretKey": "password"},
        }
        storage = Backends((entry,)).default
        assert isinstance(storage, S3Storage)
        storage.make_bucket()
        content = tokens.content_of(entry)
        yield tokens.seal(content, SECRET, format="pbkdf2", now=time.time(), seconds=60), storage


def test_values_go_to_the_bucket(
    orchestrator: FakeOrchestrator, serve: Serve, bucket: tuple[str, S3Storage]
) -> None:
    token, storage = bucket
    serve(double, storage_access="token")
    storage.put("in.json", b'{"text": "ab"}')
    storage.put("before", b"x")
    refs = {"a": {"outputPath": "o", "assets": {"before": {"path": "before", "size": 1, "type": "text"}}}}
    orchestrator.dispatch("double", storageToken=token, inputPath="in.json", upstreamRefs=refs)
    report = orchestrator.report()
    assert report["status"] == "success", report
    assert len(storage.get(report["outputPath"])) == 40_002
    assert storage.get(report["assets"]["text"]["path"]) == b"xab"
