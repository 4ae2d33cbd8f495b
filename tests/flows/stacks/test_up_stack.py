"""`pipeweave up`: a stack that stays up, with the real processes."""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Iterator

import psutil
import pytest
from support.cli_stack import StackFolder, running_stack
from support.servers import wait_until

NEEDED = {"watchdog", "valkey", "postgres", "api", "worker-1", "beat"}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackFolder]:
    with running_stack(tmp_path_factory.mktemp("stack")) as stack:
        yield stack


def test_when_up_returns_a_task_runs(stack: StackFolder) -> None:
    assert stack.greeting("Ada") == "hello Ada"


def test_when_up_returns_the_tick_goes_on(stack: StackFolder) -> None:
    with stack.client() as client:
        first = client.health()
        assert (first["status"], first["lastTickAt"] is None) == ("ok", False)
        wait_until(lambda: client.health()["lastTickAt"] != first["lastTickAt"], what="no tick")


def test_the_connection_is_for_its_owner_alone(stack: StackFolder) -> None:
    assert stat.S_IMODE((stack.data / "connection.json").stat().st_mode) == 0o600
    assert set(stack.connection()) == {"url", "tenant", "token", "databaseUrl", "brokerUrl", "settings"}


def test_ps_names_every_process_with_its_state(stack: StackFolder) -> None:
    rows = stack.ps()
    assert rows.keys() == NEEDED
    for row in rows.values():
        assert row["state"] == "running"
        assert psutil.pid_exists(row["pid"])
        assert row["uptime"] >= 0
        assert isinstance(row["restarts"], int)


def test_no_secret_is_on_a_command_line(stack: StackFolder) -> None:
    secrets = [
        value
        for value in json.loads((stack.data / "secrets.json").read_text()).values()
        if isinstance(value, str)
    ]
    assert len(secrets) == 6
    for process in stack.family():
        line = " ".join(process.cmdline())
        assert not [secret for secret in secrets if secret in line]


def test_servers_listen_on_the_loopback_address_alone(stack: StackFolder) -> None:
    listening = {
        connection.laddr.ip
        for process in stack.family()
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}


def test_a_second_up_on_the_same_folder_says_so_in_one_line(stack: StackFolder) -> None:
    for options in ((), ("--detach",)):
        second = stack.call("up", "--port", "0", *options)
        assert second.returncode == 1
        assert "already up" in second.stderr
        assert len(second.stderr.strip().splitlines()) == 1
    assert stack.ps().keys() == NEEDED


def test_a_demo_leaves_a_stack_alone_that_was_up_before(stack: StackFolder) -> None:
    done = stack.call("demo", "--data-dir", str(stack.data))
    assert done.returncode == 1
    assert "ALREADY_UP" in done.stderr
    assert stack.ps()["api"]["state"] == "running"


@pytest.mark.parametrize("name", sorted(NEEDED))
def test_a_killed_process_is_back(stack: StackFolder, name: str) -> None:
    before = stack.ps()[name]
    os.kill(before["pid"], signal.SIGKILL)

    def is_back() -> bool:
        row = stack.process(name)
        return row is not None and row.state == "running" and row.pid != before["pid"]

    wait_until(is_back, what=f"{name} is not back")
    assert stack.ps()[name]["restarts"] == before["restarts"] + 1
    assert stack.greeting(name) == f"hello {name}"
