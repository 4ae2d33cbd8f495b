"""`pipeweave env` connects a shell to a deployment, and `celery` finds it without that."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from pipeweave.cli import main
from pipeweave.settings import connecting, load

FILE = {
    "url": "http://127.0.0.1:4000",
    "tenant": "acme",
    "token": "it's",
    "databaseUrl": "postgresql://of-the-file/x",
    "brokerUrl": "redis://of-the-file/0",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".pipeweave").mkdir()
    (tmp_path / ".pipeweave" / "connection.json").write_text(json.dumps(FILE))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_env_prints_what_a_shell_evaluates(project: Path) -> None:
    printed = CliRunner().invoke(main, ["env"]).output
    shown = subprocess.run(
        ["sh", "-c", f"eval {shlex.quote(printed)}; env"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert "PIPEWEAVE_API_TOKEN=it's" in shown
    assert "PIPEWEAVE_BROKER_URL=redis://of-the-file/0" in shown
    assert f"PIPEWEAVE_DATA_DIR={project / '.pipeweave'}" in shown


def test_env_as_json_names_the_same(project: Path) -> None:
    shown = json.loads(CliRunner().invoke(main, ["env", "--json"]).output)
    assert (shown["PIPEWEAVE_ORCHESTRATOR_URL"], shown["PIPEWEAVE_TENANT"]) == (FILE["url"], "acme")
    assert shown["PIPEWEAVE_DATABASE_URL"] == FILE["databaseUrl"]


def test_the_secret_key_is_printed_when_it_is_asked_for(project: Path) -> None:
    passwords = ("postgres_password", "postgres_admin_password", "valkey_password", "flower_password")
    kept = {**dict.fromkeys(passwords, "x"), "secret_key": "k" * 40}
    (project / ".pipeweave" / "secrets.json").write_text(json.dumps(kept))
    assert "PIPEWEAVE_SECRET_KEY" not in CliRunner().invoke(main, ["env"]).output
    shown = CliRunner().invoke(main, ["env", "--secret"]).output
    assert f"export PIPEWEAVE_SECRET_KEY={'k' * 40}\n" in shown


def test_env_exports_what_all_processes_of_a_stack_must_share(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backends = json.dumps(
        [
            {"id": "main", "provider": "minio", "endpoint": "http://s3:9000", "bucket": "b"}
            | {"credentials": {"accessKey": "a", "secretKey": "hidden"}}
        ]
    )
    shared = {"STORAGE_BACKENDS": backends, "DISPATCH_NETWORKS": "loopback", "MODE": "standalone"}
    stack = {**FILE, "settings": {**shared, "PORT": "21001"}}
    (project / ".pipeweave" / "connection.json").write_text(json.dumps(stack))
    shown = json.loads(CliRunner().invoke(main, ["env", "--json"]).output)
    assert {name: shown.get(f"PIPEWEAVE_{name}") for name in shared} == shared
    assert "PIPEWEAVE_PORT" not in shown
    for name, text in shown.items():
        monkeypatch.setenv(name, text)
    assert connecting.servers(load()).storage_backends == tuple(json.loads(backends))
    configured = CliRunner().invoke(main, ["config", "--json"]).output
    assert "minio" in configured
    assert "hidden" not in configured


def test_env_shows_a_remote_orchestrator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIPEWEAVE_ORCHESTRATOR_URL", "https://pipeweave.example.com")
    shown = json.loads(CliRunner().invoke(main, ["env", "--json"]).output)
    assert set(shown) == {"PIPEWEAVE_ORCHESTRATOR_URL", "PIPEWEAVE_DATA_DIR"}


def test_env_without_a_deployment_is_one_line_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(main, ["env"])
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert answer.stderr.startswith("pipeweave: UNAVAILABLE: no deployment is configured; ")


def test_celery_says_in_one_line_that_it_finds_no_deployment(tmp_path: Path) -> None:
    without = {name: text for name, text in os.environ.items() if not name.endswith(("_URL", "DATA_DIR"))}
    answer = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "pipeweave.workers.app", "status"],
        cwd=tmp_path,
        env=without,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 1
    assert answer.stderr.startswith("pipeweave: INVALID_SETTING: BROKER_URL is not set; ")
    assert answer.stderr.count("\n") == 1
