"""Which orchestrator a command talks to: flags, --data-dir, environment, what runs here; in this order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeweave.cli.support.connection import resolve, resolve_database
from pipeweave.errors import InvalidInput, InvalidSetting, Unavailable
from pipeweave.settings import Settings

FILE = {
    "url": "http://127.0.0.1:4000",
    "tenant": "acme",
    "token": "of-the-file",
    "databaseUrl": "postgresql://of-the-file/x",
    "brokerUrl": "redis://of-the-file/0",
}


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    (tmp_path / "connection.json").write_text(json.dumps(FILE))
    return tmp_path


def here(data_dir: Path, **given: str) -> Settings:
    return Settings(data_dir=str(data_dir), **given)  # type: ignore[arg-type]


def test_a_stack_that_runs_here_is_found_without_any_flag(data_dir: Path) -> None:
    found = resolve(here(data_dir))
    assert (found.url, found.token, found.tenant) == ("http://127.0.0.1:4000", "of-the-file", "acme")


def test_the_environment_wins_over_what_runs_here(data_dir: Path) -> None:
    found = resolve(here(data_dir, orchestrator_url="http://elsewhere", api_token="t", tenant="x"))
    assert (found.url, found.token, found.tenant) == ("http://elsewhere", "t", "x")


def test_a_named_data_dir_wins_over_the_environment(data_dir: Path) -> None:
    found = resolve(Settings(orchestrator_url="http://elsewhere", api_token="t"), data_dir=data_dir)
    assert (found.url, found.token) == ("http://127.0.0.1:4000", "of-the-file")


def test_flags_win_over_everything(data_dir: Path) -> None:
    found = resolve(Settings(api_token="t"), data_dir=data_dir, token="flag", tenant="other")
    assert (found.url, found.token, found.tenant) == ("http://127.0.0.1:4000", "flag", "other")


@pytest.mark.parametrize("named_by", ["flag", "environment"])
def test_the_token_of_a_file_goes_to_no_other_url(data_dir: Path, named_by: str) -> None:
    if named_by == "flag":
        found = resolve(here(data_dir), url="http://elsewhere")
    else:
        found = resolve(here(data_dir, orchestrator_url="http://elsewhere"))
    assert found.token is None


def test_two_names_for_an_orchestrator_are_refused(data_dir: Path) -> None:
    with pytest.raises(InvalidInput, match="--url and --data-dir"):
        resolve(Settings(), url="http://x", data_dir=data_dir)


def test_nothing_to_talk_to_says_how_to_start_something(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        resolve(here(tmp_path))
    assert "pipeweave up" in (caught.value.hint or "")


def test_a_data_dir_where_nothing_runs_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no stack runs on") as caught:
        resolve(Settings(), data_dir=tmp_path)
    assert f"--data-dir {tmp_path}" in (caught.value.hint or "")


@pytest.mark.parametrize("content", ["", "[]", '{"url": "http://x"}', "\0"])
def test_a_damaged_connection_file_is_one_clear_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "connection.json").write_text(content)
    with pytest.raises(Unavailable, match=r"connection\.json"):
        resolve(Settings(), data_dir=tmp_path)


def test_the_database_comes_from_flag_then_file_then_environment(data_dir: Path, tmp_path: Path) -> None:
    settings = here(data_dir, database_url="postgresql://of-the-environment/x")
    assert resolve_database(settings, "postgresql://of-the-flag/x", None) == "postgresql://of-the-flag/x"
    assert resolve_database(settings, None, data_dir) == "postgresql://of-the-file/x"
    assert resolve_database(settings, None, None) == "postgresql://of-the-environment/x"
    assert resolve_database(here(data_dir), None, None) == "postgresql://of-the-file/x"


def test_no_database_is_an_error_that_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting) as caught:
        resolve_database(here(tmp_path), None, None)
    assert caught.value.errors[0].field == "DATABASE_URL"


def test_a_database_url_of_another_kind_is_refused_without_showing_it() -> None:
    with pytest.raises(InvalidInput) as caught:
        resolve_database(Settings(), "mysql://me:secret@host/x", None)
    assert "secret" not in str(caught.value.to_problem())
