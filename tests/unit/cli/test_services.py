"""`pipeweave services`: what it asks, what it prints, where the worker secret comes from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.stub_http_server import Served

from pipeweave import signatures
from pipeweave.cli import main

Call = Callable[..., Result]

SEEN = "2026-11-20T12:00:00.000Z"
KEY = "k" * 40


@pytest.fixture
def call(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call a command in an empty folder, with the answering server as its orchestrator."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(main, [*arguments, "--url", served.url, "--token", "t"])

    return call


def a_service(**more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"id": "resizer", "kind": "http", "version": "2", "status": "active"}
    found |= {"baseUrl": "http://10.0.0.7:3001", "lastHeartbeat": SEEN, "lastSeen": SEEN, "taskCount": 2}
    found |= {"workerCount": 0, "instanceCount": 2, "readyInstances": 1, "storageAccess": "token"}
    return found | {"tokenFormat": "sdk", "baseUrlOverride": None, "disabledAt": None} | more


def an_instance(url: str, **more: Any) -> dict[str, Any]:
    found = {"baseUrl": url, "version": "2", "setAsideAt": None, "lastSeenAt": SEEN, "refusals": 0}
    return found | {"lastError": None, "tasks": ["crop", "scale"]} | more


def test_services_are_listed_with_the_instances_that_take_dispatches(call: Call, served: Served) -> None:
    listed = [a_service(), a_service(id="python", kind="python", workerCount=3, disabledAt=None)]
    served.put("GET /api/services", (200, {"services": listed, "nextCursor": None}))
    result = call("services")
    assert result.exit_code == 0
    heading, resizer, python = result.output.splitlines()
    assert "PROCESSES" in heading
    assert "1 of 2" in resizer and " 3 " in python


def test_a_service_is_shown_with_its_instances(call: Call, served: Served) -> None:
    aside = an_instance("http://10.0.0.8:3001", setAsideAt=SEEN, refusals=4, lastError="it does not answer")
    found = a_service(instances=[an_instance("http://10.0.0.7:3001"), aside])
    served.put("GET /api/services/resizer", (200, {"service": found}))
    result = call("services", "show", "resizer")
    assert result.exit_code == 0
    ready, refused = result.output.splitlines()[-2:]
    assert "http://10.0.0.7:3001" in ready and "ready" in ready
    assert "set aside" in refused and "it does not answer" in refused
    assert json.loads(call("services", "show", "resizer", "--json").output) == found


def test_a_service_is_switched_off_and_its_address_changed(call: Call, served: Served) -> None:
    found = a_service(instances=[], baseUrlOverride="peer", disabledAt=SEEN)
    served.put("PUT /api/services/resizer/settings", (200, {"service": found}))
    result = call("services", "set", "resizer", "--base-url", "peer", "--disable")
    assert result.exit_code == 0
    assert "switched off" in result.output and "No instance is registered." in result.output
    assert served.asked[-1][2] == {"baseUrl": "peer", "isDisabled": True}


def test_a_change_of_nothing_is_refused(call: Call) -> None:
    result = call("services", "set", "resizer")
    assert result.exit_code == 2
    assert "--base-url, --disable or --enable" in result.stderr


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a stack that runs here, with a key of its own."""
    folder = tmp_path / ".pipeweave"
    folder.mkdir()
    names = ("url", "token", "databaseUrl", "brokerUrl")
    (folder / "connection.json").write_text(json.dumps({**dict.fromkeys(names, "x"), "tenant": "acme"}))
    passwords = ("postgres_password", "postgres_admin_password", "valkey_password", "flower_password")
    (folder / "secrets.json").write_text(json.dumps({**dict.fromkeys(passwords, "x"), "secret_key": KEY}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PIPEWEAVE_SECRET_KEY", raising=False)
    return folder


def test_the_worker_secret_is_that_of_the_stack(stack: Path) -> None:
    assert CliRunner().invoke(main, ["services", "secret", "resizer"]).output == f"{KEY}\n"


def test_each_service_may_have_its_own_secret(stack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPEWEAVE_SECRET_KEY", "e" * 40)
    monkeypatch.setenv("WORKER_SECRETS", "service")
    shown = CliRunner().invoke(main, ["services", "secret", "resizer", "--tenant", "acme", "--json"]).output
    wanted = signatures.worker_secret("e" * 40, "acme", "resizer", is_shared=False)
    assert json.loads(shown) == {"serviceId": "resizer", "secret": wanted, "isShared": False}


def test_without_a_secret_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PIPEWEAVE_SECRET_KEY", raising=False)
    result = CliRunner().invoke(main, ["services", "secret", "resizer"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("pipeweave: INVALID_SETTING: no secret key is known here; ")
    assert result.stderr.count("\n") == 1
