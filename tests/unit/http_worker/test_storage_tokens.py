"""An HTTP worker that gets storage tokens reads and writes the storage itself."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from support.fake_orchestrator import SECRET, FakeOrchestrator, Serve

from pipeweave import Context, task
from pipeweave.storage import LocalStorage, tokens


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "objects")


def token(storage: LocalStorage, *, secret: str = SECRET, format: Any = "pbkdf2", age_s: float = 0) -> str:
    entry = {"id": "local", "provider": "local", "credentials": {"basePath": str(storage.root)}}
    return tokens.seal(tokens.content_of(entry), secret, format=format, now=time.time() - age_s, seconds=3600)


@task
def large(ctx: Context) -> str:
    ctx.log.info("said")
    ctx.add_asset("note", "hello")
    return str(ctx.input) * 50_000


@pytest.mark.parametrize("format", ["sdk", "pbkdf2"])
def test_values_go_straight_to_the_storage(
    orchestrator: FakeOrchestrator, serve: Serve, storage: LocalStorage, format: str
) -> None:
    serve(large, storage_access="token")
    storage.put("in.json", b"1")
    orchestrator.dispatch(
        "large", storageToken=token(storage, format=format), inputPath="in.json", inputUrl=None, upload=None
    )
    report = orchestrator.report()
    assert storage.get(report["outputPath"]) == b'"' + b"1" * 50_000 + b'"'
    assert storage.get(report["assets"]["note"]["path"]) == b"hello"
    assert orchestrator.wait(lambda: storage.exists(report["logsPath"]))
    assert orchestrator.registrations[0]["tokenFormat"] == "pbkdf2"


@pytest.mark.parametrize("wrong", [{"secret": "other"}, {"age_s": 7200}])
def test_a_forged_or_expired_token_fails_the_attempt(
    orchestrator: FakeOrchestrator, serve: Serve, storage: LocalStorage, wrong: dict[str, Any]
) -> None:
    serve(large, storage_access="token")
    orchestrator.dispatch("large", storageToken=token(storage, **wrong))
    report = orchestrator.report()
    assert report["errorCode"] == "INVALID_TOKEN"
    assert SECRET not in str(report)
