"""`pipeweave up | down`: starts and stops, wanted and unwanted, with the real processes."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
import urllib3
from support.cli_stack import TASKS, StackFolder, are_gone
from support.servers import WAIT_DEADLINE_S, wait_until

WITHOUT_TASKS = {"watchdog", "valkey", "postgres", "api", "beat", "dispatcher"}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[StackFolder]:
    """A folder with tasks in which nothing ran before; nothing runs there afterwards."""
    (tmp_path / "tasks.py").write_text(TASKS)
    stack = StackFolder(tmp_path)
    yield stack
    stack.down()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> StackFolder:
    """The folder of `used`."""
    return StackFolder(tmp_path_factory.mktemp("used"))


@pytest.fixture
def used(kept: StackFolder) -> Iterator[StackFolder]:
    """A folder with tasks that tests use one after the other: its databases are made once."""
    (kept.folder / "tasks.py").write_text(TASKS)
    yield kept
    kept.down()


def can_connect(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_down_leaves_no_process_and_no_lock_and_keeps_the_data(folder: StackFolder) -> None:
    folder.up()
    first = folder.connection()
    folder.greeting("Ada")
    processes = folder.family()
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


def test_ctrl_c_stops_everything_also_a_flower_that_asked_for_a_password(used: StackFolder) -> None:
    has_flower = find_spec("flower") is not None
    running = used.begin("up", "--port", "0")
    try:
        wait_until((used.data / "connection.json").exists)
        if has_flower:
            flower_asks_for_a_password(used)
        processes = used.family()
        running.send_signal(signal.SIGINT)
        printed, _ = running.communicate(timeout=WAIT_DEADLINE_S)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 0
    assert "PipeWeave is ready: http://127.0.0.1:" in printed
    assert "worker-1  | " in printed
    assert are_gone(processes)


def flower_asks_for_a_password(used: StackFolder) -> None:
    kept = json.loads((used.data / "secrets.json").read_text())
    page = f"http://127.0.0.1:{kept['flower_port']}/workers"
    signed_in = urllib3.make_headers(basic_auth=f"pipeweave:{kept['flower_password']}")
    with urllib3.PoolManager(retries=False) as http:
        wait_until(lambda: can_connect(kept["flower_port"]), what="Flower does not answer")
        assert http.request("GET", page).status == 401
        assert http.request("GET", page, headers=signed_in).status == 200
    flower = psutil.Process(used.ps()["flower"]["pid"])
    assert kept["flower_password"] not in " ".join(flower.cmdline())


def test_nothing_outlives_a_killed_supervisor_and_the_next_up_ends_leftovers(
    used: StackFolder,
) -> None:
    used.up()
    processes = used.family()
    used.supervisor().kill()
    wait_until(lambda: are_gone(processes), what="something is left")

    used.up()
    processes = used.family()
    watchdog = psutil.Process(used.ps()["watchdog"]["pid"])
    supervisor = used.supervisor()
    supervisor.suspend()
    watchdog.kill()
    supervisor.kill()
    used.up()
    assert are_gone(processes)
    assert used.greeting("Ada") == "hello Ada"


# --- what may be wrong ------------------------------------------------------------------------------------


def test_a_port_in_use_is_named_before_anything_starts(folder: StackFolder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for options in ((), ("--detach",)):
            done = folder.call("up", "--port", str(port), *options)
            assert done.returncode == 1
            assert f"port {port} on 127.0.0.1 is in use" in done.stderr
    assert not (folder.data / "postgres").exists()


def test_an_app_without_tasks_stops_the_start(used: StackFolder) -> None:
    (used.folder / "empty.py").write_text("")
    done = used.call("up", "--port", "0", "--no-flower", "--detach", "--app", "empty.py")
    assert done.returncode == 1
    assert "worker-1 ended with exit code" in done.stderr
    assert "empty.py" in done.stderr
    assert list((used.data / "run").iterdir()) == []


def test_an_app_that_is_not_there_is_refused(folder: StackFolder) -> None:
    done = folder.call("up", "--app", "missing.py")
    assert done.returncode == 2
    assert "missing.py does not exist" in done.stderr


def test_without_tasks_a_dispatcher_runs_and_up_says_what_to_do(used: StackFolder) -> None:
    (used.folder / "tasks.py").unlink()
    done = used.call("up", "--port", "0", "--no-flower", "--detach")
    assert done.returncode == 0, done.stderr
    assert "No worker runs, because there are no tasks to load: put them in ./tasks.py" in done.stdout
    assert used.ps().keys() == WITHOUT_TASKS
    url = used.connection()["url"]
    assert f"PIPEWEAVE_ORCHESTRATOR_URL={url}\n" in done.stdout
    assert f"{url}/w/default/TOKEN" in done.stdout
    secret = used.call("services", "secret", "resizer").stdout.strip()
    assert secret == json.loads((used.data / "secrets.json").read_text())["secret_key"]
    assert secret not in done.stdout
    assert f"PIPEWEAVE_SECRET_KEY={secret}" in used.call("env", "--secret").stdout
    assert secret not in used.call("env").stdout


def test_down_says_when_nothing_is_up(folder: StackFolder) -> None:
    done = folder.down()
    assert done.returncode == 0
    assert "No stack runs in" in done.stdout
