"""`pipeweave up | down | ps` with the real processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import urllib3
from support.cli_stack import TASKS, StackFolder, running_stack
from support.servers import wait_until

from pipeweave.client.models import Document
from pipeweave.errors import Unavailable

NEEDED = {"watchdog", "valkey", "postgres", "api", "worker-1", "beat"}
# Far beyond what a busy machine needs: that something is back or gone is tested, and not how soon.
DEADLINE_S = 120.0


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[StackFolder]:
    """A folder with tasks in which nothing runs yet; nothing runs there afterwards."""
    (tmp_path / "tasks.py").write_text(TASKS)
    stack = StackFolder(tmp_path)
    yield stack
    stack.down()


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackFolder]:
    with running_stack(tmp_path_factory.mktemp("stack")) as stack:
        yield stack


def greeting(stack: StackFolder, name: str) -> str:
    """What a task of the stack answers."""
    accepted: list[Document] = []

    def is_accepted() -> bool:
        # A server that was killed runs before it answers; until then the API says 503 and "ask again".
        with contextlib.suppress(Unavailable):
            accepted.append(client.queue("greet", {"name": name}))
        return bool(accepted)

    with stack.client() as client:
        wait_until(is_accepted, DEADLINE_S, "nothing new is accepted")
        queued = accepted[0]
        look = lambda: client.task_run(queued["runId"])  # noqa: E731
        wait_until(lambda: look()["status"] in ("completed", "failed"), what="the task run did not end")
        return str(look()["output"])


def family(stack: StackFolder) -> list[psutil.Process]:
    supervisor = stack.supervisor()
    return [supervisor, *supervisor.children(recursive=True)]


def are_gone(processes: list[psutil.Process]) -> bool:
    return not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in processes)


def can_connect(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


# --- a stack that stays up --------------------------------------------------------------------------------


def test_when_up_returns_a_task_runs(stack: StackFolder) -> None:
    assert greeting(stack, "Ada") == "hello Ada"


def test_when_up_returns_the_tick_goes_on(stack: StackFolder) -> None:
    with stack.client() as client:
        first = client.health()
        assert (first["status"], first["lastTickAt"] is None) == ("ok", False)
        wait_until(lambda: client.health()["lastTickAt"] != first["lastTickAt"], what="no tick")


def test_the_connection_is_for_its_owner_alone(stack: StackFolder) -> None:
    assert stat.S_IMODE((stack.data / "connection.json").stat().st_mode) == 0o600
    assert set(stack.connection()) == {"url", "tenant", "token", "databaseUrl", "brokerUrl"}


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
        for value in json.loads((stack.data / "kept.json").read_text()).values()
        if isinstance(value, str)
    ]
    assert len(secrets) == 6
    for process in family(stack):
        line = " ".join(process.cmdline())
        assert not [secret for secret in secrets if secret in line]


def test_servers_listen_on_the_loopback_address_alone(stack: StackFolder) -> None:
    listening = {
        connection.laddr.ip
        for process in family(stack)
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


@pytest.mark.parametrize("name", sorted(NEEDED))
def test_a_killed_process_is_back(stack: StackFolder, name: str) -> None:
    before = stack.ps()[name]
    os.kill(before["pid"], signal.SIGKILL)

    def is_back() -> bool:
        row = stack.ps()[name]
        return row["state"] == "running" and row["pid"] != before["pid"]

    wait_until(is_back, DEADLINE_S, f"{name} is not back")
    assert stack.ps()[name]["restarts"] == before["restarts"] + 1
    assert greeting(stack, name) == f"hello {name}"


def test_flower_asks_for_a_password(folder: StackFolder) -> None:
    pytest.importorskip("flower")
    assert folder.call("up", "--port", "0", "--detach").returncode == 0
    kept = json.loads((folder.data / "kept.json").read_text())
    page = f"http://127.0.0.1:{kept['flower_port']}/workers"
    signed_in = urllib3.make_headers(basic_auth=f"pipeweave:{kept['flower_password']}")
    with urllib3.PoolManager(retries=False) as http:
        wait_until(lambda: folder.ps()["flower"]["state"] == "running" and can_connect(kept["flower_port"]))
        assert http.request("GET", page).status == 401
        assert http.request("GET", page, headers=signed_in).status == 200
    flower = psutil.Process(folder.ps()["flower"]["pid"])
    assert kept["flower_password"] not in " ".join(flower.cmdline())


# --- start and stop ---------------------------------------------------------------------------------------


def test_down_leaves_no_process_and_no_lock_and_keeps_the_data(folder: StackFolder) -> None:
    folder.up()
    first = folder.connection()
    greeting(folder, "Ada")
    processes = family(folder)
    done = folder.down()
    assert done.returncode == 0
    assert are_gone(processes)
    assert list((folder.data / "run").iterdir()) == []
    assert not (folder.data / "connection.json").exists()
    assert folder.call("ps").returncode == 1

    folder.up()
    assert folder.connection()["token"] == first["token"]
    assert folder.connection()["databaseUrl"] == first["databaseUrl"]
    with folder.client() as client:
        assert client.queue_status()["completed"] == 1


def test_ctrl_c_stops_everything(folder: StackFolder) -> None:
    running = folder.begin("up", "--port", "0", "--no-flower")
    try:
        wait_until((folder.data / "connection.json").exists, DEADLINE_S)
        processes = family(folder)
        running.send_signal(signal.SIGINT)
        printed, _ = running.communicate(timeout=DEADLINE_S)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 0
    assert "PipeWeave is ready: http://127.0.0.1:" in printed
    assert "worker-1  | " in printed
    assert are_gone(processes)


def test_nothing_outlives_a_killed_supervisor_and_the_next_up_works(folder: StackFolder) -> None:
    folder.up()
    processes = family(folder)
    folder.supervisor().kill()
    wait_until(lambda: are_gone(processes), DEADLINE_S, "something is left")
    folder.up()
    assert greeting(folder, "Ada") == "hello Ada"


def test_leftovers_of_a_crash_are_ended_by_the_next_up(folder: StackFolder) -> None:
    folder.up()
    processes = family(folder)
    watchdog = psutil.Process(folder.ps()["watchdog"]["pid"])
    supervisor = folder.supervisor()
    supervisor.suspend()
    watchdog.kill()
    supervisor.kill()
    folder.up()
    assert are_gone(processes)
    assert greeting(folder, "Ada") == "hello Ada"


# --- what may be wrong ------------------------------------------------------------------------------------


def test_a_port_in_use_is_named_before_anything_starts(folder: StackFolder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for options in ((), ("--detach",)):
            done = folder.call("up", "--port", str(port), *options)
            assert done.returncode == 1
            assert f"port {port} on 127.0.0.1 is in use" in done.stderr
    assert not (folder.data / "postgres").exists()


def test_an_app_without_tasks_stops_the_start(folder: StackFolder) -> None:
    (folder.folder / "empty.py").write_text("")
    done = folder.call("up", "--port", "0", "--no-flower", "--detach", "--app", "empty.py")
    assert done.returncode == 1
    assert "worker-1 ended with exit code" in done.stderr
    assert "empty.py" in done.stderr
    assert list((folder.data / "run").iterdir()) == []


def test_an_app_that_is_not_there_is_refused(folder: StackFolder) -> None:
    done = folder.call("up", "--app", "missing.py")
    assert done.returncode == 2
    assert "missing.py does not exist" in done.stderr


def test_without_tasks_the_api_runs_alone_and_says_how_to_add_some(folder: StackFolder) -> None:
    (folder.folder / "tasks.py").unlink()
    done = folder.call("up", "--port", "0", "--no-flower", "--detach")
    assert done.returncode == 0, done.stderr
    assert "No worker runs, because there are no tasks to load: put them in ./tasks.py" in done.stdout
    assert folder.ps().keys() == NEEDED - {"worker-1"}


def test_down_says_when_nothing_is_up(folder: StackFolder) -> None:
    done = folder.down()
    assert done.returncode == 0
    assert "No stack runs in" in done.stdout
