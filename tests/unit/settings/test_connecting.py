"""What a command or a client connects to: flags, --data-dir, environment, what runs here; in this order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeweave.client import Client
from pipeweave.errors import InvalidId, InvalidInput, InvalidSetting, Unavailable
from pipeweave.settings import Settings, connecting, load_for_client, stack_file
from pipeweave.settings.connecting import database as resolve_database
from pipeweave.settings.connecting import orchestrator as resolve

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


def test_a_folder_that_cannot_be_read_holds_no_stack(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.stat", refuse)
    with pytest.raises(Unavailable, match="no orchestrator is configured"):
        resolve(here(data_dir))


def here(data_dir: Path, **given: str) -> Settings:
    return Settings(data_dir=str(data_dir), named=frozenset(given), **given)  # type: ignore[arg-type]


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


def test_another_token_does_not_get_the_tenant_of_the_file(data_dir: Path) -> None:
    found = resolve(Settings(), data_dir=data_dir, token="flag")
    assert (found.token, found.tenant) == ("flag", None)


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
    with pytest.raises(Unavailable, match="no stack runs in") as caught:
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


def test_a_process_takes_both_servers_from_the_environment_or_from_the_stack(data_dir: Path) -> None:
    given = {"database_url": "postgresql://mine/x", "broker_url": "redis://mine/0"}
    assert connecting.servers(here(data_dir, **given)).broker_url == "redis://mine/0"
    joined = connecting.servers(here(data_dir))
    assert (joined.database_url, joined.broker_url, joined.tenant) == (
        "postgresql://of-the-file/x",
        "redis://of-the-file/0",
        "acme",
    )
    assert connecting.servers(here(data_dir, tenant="mine")).tenant == "mine"


def test_a_process_that_joins_a_stack_has_what_its_processes_share(data_dir: Path) -> None:
    shared = {"DISPATCH_NETWORKS": "loopback", "IDEMPOTENCY_TTL_SECONDS": "7", "MAX_CONCURRENCY": "99"}
    (data_dir / "connection.json").write_text(json.dumps({**FILE, "settings": shared}))
    (data_dir / "secrets.json").write_text(json.dumps({"secret_key": "k" * 64}))
    callers = {"secret_key": "c" * 64, "idempotency_ttl_seconds": 5, "max_retry_delay_ms": 1}
    named = connecting.servers(Settings(**callers, named=frozenset(callers)), data_dir)
    assert (named.secret_key, named.dispatch_networks) == ("k" * 64, ("loopback",))
    assert (named.idempotency_ttl_seconds, named.max_retry_delay_ms) == (7, Settings().max_retry_delay_ms)
    assert named.max_concurrency == Settings().max_concurrency
    found = connecting.servers(here(data_dir, idempotency_ttl_seconds=5))  # type: ignore[arg-type]
    assert (found.secret_key, found.idempotency_ttl_seconds) == ("k" * 64, 5)
    exported = here(data_dir, database_url=FILE["databaseUrl"], broker_url=FILE["brokerUrl"])
    assert connecting.servers(exported).secret_key == "k" * 64


def test_doctor_looks_at_the_stack_that_it_is_given_and_not_at_the_shell(data_dir: Path) -> None:
    (data_dir / "secrets.json").write_text(json.dumps({"secret_key": "k" * 64}))
    assert connecting.deployment(Settings(), data_dir=data_dir).secret_key == "k" * 64
    shells = Settings(secret_key="s" * 64, named=frozenset({"secret_key"}))
    assert connecting.deployment(shells, data_dir=data_dir).secret_key == "k" * 64


def test_the_tenant_of_the_environment_counts_beside_a_data_dir_as_elsewhere(data_dir: Path) -> None:
    mine = Settings(tenant="mine", named=frozenset({"tenant"}))
    assert connecting.servers(mine, data_dir).tenant == "mine"
    assert connecting.deployment(mine, data_dir=data_dir).tenant == "mine"
    assert resolve(mine, data_dir=data_dir).tenant == "mine"
    assert resolve(mine, data_dir=data_dir, tenant="flag").tenant == "flag"


def test_the_tenant_that_a_process_is_given_counts_first(data_dir: Path) -> None:
    theirs = Settings(tenant="of-the-environment", named=frozenset({"tenant"}))
    assert connecting.servers(theirs, data_dir, "flag").tenant == "flag"
    assert connecting.servers(here(data_dir), tenant="flag").tenant == "flag"
    with pytest.raises(InvalidId):
        connecting.servers(Settings(), data_dir, "no tenant")


def test_a_process_never_mixes_two_deployments(data_dir: Path) -> None:
    with pytest.raises(InvalidSetting, match="BROKER_URL is not set") as caught:
        connecting.servers(here(data_dir, database_url="postgresql://mine/x"))
    assert f"unset DATABASE_URL to use the stack in {data_dir}" in (caught.value.hint or "")


def test_a_process_that_finds_no_servers_names_every_way_to_give_them(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="no database and no broker are configured") as caught:
        connecting.servers(here(tmp_path))
    hint = caught.value.hint or ""
    assert all(way in hint for way in ("DATABASE_URL", "BROKER_URL", "--data-dir", "pipeweave up"))


def test_a_tool_that_looks_at_the_broker_needs_no_database(data_dir: Path, tmp_path: Path) -> None:
    assert connecting.broker(here(tmp_path, broker_url="redis://mine/0")).broker_url == "redis://mine/0"
    assert connecting.broker(here(data_dir)).broker_url == "redis://of-the-file/0"
    with pytest.raises(InvalidSetting, match="BROKER_URL is not set"):
        connecting.broker(here(data_dir, database_url="postgresql://mine/x"))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a stack in `.pipeweave`; the current folder is one of its folders."""
    (tmp_path / ".pipeweave").mkdir()
    (tmp_path / ".pipeweave" / "connection.json").write_text(json.dumps(FILE))
    (tmp_path / "src" / "deep").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "src" / "deep")
    return tmp_path


def test_the_stack_of_a_project_is_found_in_its_folders(project: Path) -> None:
    assert resolve(Settings()).url == "http://127.0.0.1:4000"
    assert stack_file.folder_of(".pipeweave") == project / ".pipeweave"


def test_a_nearer_stack_that_is_down_hides_one_above(project: Path) -> None:
    (project / "src" / ".pipeweave").mkdir()
    (project / "src" / ".pipeweave" / "secrets.json").write_text("{}")
    with pytest.raises(Unavailable, match="no orchestrator"):
        resolve(Settings())


def test_a_folder_that_up_did_not_make_hides_no_stack(project: Path) -> None:
    (project / "src" / ".pipeweave" / "storage").mkdir(parents=True)
    assert resolve(Settings()).url == "http://127.0.0.1:4000"


def test_the_folder_of_another_user_above_is_not_used(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: project.stat().st_uid + 1)
    with pytest.raises(Unavailable, match="no orchestrator"):
        resolve(Settings())


def test_a_data_dir_that_is_set_is_not_looked_for_above(project: Path) -> None:
    with pytest.raises(Unavailable, match="no orchestrator"):
        resolve(Settings(data_dir="elsewhere"))


def test_a_client_without_arguments_uses_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPEWEAVE_ORCHESTRATOR_URL", "http://elsewhere:3000/")
    # A variable of the program that uses the client.
    monkeypatch.setenv("DATABASE_URL", "mysql://mine")
    with Client() as client:
        assert client.url == "http://elsewhere:3000"


def test_a_client_without_arguments_finds_the_stack_of_its_folder(project: Path) -> None:
    with Client() as client, Client(data_dir=project / ".pipeweave") as named:
        assert client.url == named.url == "http://127.0.0.1:4000"


def test_a_client_that_finds_nothing_says_how_to_name_an_orchestrator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Unavailable, match="no orchestrator is configured") as caught:
        Client()
    assert "PIPEWEAVE_ORCHESTRATOR_URL" in (caught.value.hint or "")


def test_a_client_refuses_misspelt_names_of_its_own_settings_only() -> None:
    assert load_for_client({"PORT": "none", "STORAGE_PROVIDER": "s3", "PIPEWEAVE_PORT": "x"}) == Settings()
    with pytest.raises(InvalidSetting, match="PIPEWEAVE_API_TOKN"):
        load_for_client({"PIPEWEAVE_API_TOKN": "t"})
