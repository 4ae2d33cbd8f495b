"""`pipeweave config`: what is in effect, and from where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from pipeweave.cli import main
from pipeweave.settings.stack_file import FILE_NAME

FILE = f".pipeweave/{FILE_NAME}"


@pytest.fixture(autouse=True)
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder in which a stack runs, with these settings."""
    monkeypatch.chdir(tmp_path)
    document = {
        "url": "http://127.0.0.1:21001",
        "tenant": "default",
        "token": "pw_x",
        "databaseUrl": "postgresql://u:p@127.0.0.1:5432/x",
        "brokerUrl": "redis://127.0.0.1:6379/0",
        "settings": {"PORT": "21001", "MAX_CONCURRENCY": "2", "LOG_LEVEL": "debug"},
    }
    (tmp_path / ".pipeweave").mkdir()
    (tmp_path / FILE).write_text(json.dumps(document))


def shown(name: str) -> tuple[str, str]:
    answer = CliRunner().invoke(main, ["config", "--json"])
    assert answer.exit_code == 0, answer.output
    (row,) = [each for each in json.loads(answer.stdout)["settings"] if each["name"] == name]
    return row["value"], row["source"]


def test_the_settings_of_a_stack_are_those_its_processes_run_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_CONCURRENCY", "7")
    assert shown("PORT") == ("21001", FILE)
    assert shown("MAX_CONCURRENCY") == ("2", FILE)
    assert shown("LOG_LEVEL") == ("debug", FILE)
    assert shown("MODE")[1] == "default"


def test_where_the_environment_names_another_deployment_its_settings_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://u:p@db.example:5432/y")
    monkeypatch.setenv("MAX_CONCURRENCY", "7")
    assert shown("MAX_CONCURRENCY") == ("7", "MAX_CONCURRENCY")
    assert shown("PORT")[1] == "default"
