"""Who `up` runs as: root keeps to itself what is root's, an ordinary user needs nothing of root."""

from __future__ import annotations

import os
import shutil
import site
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from support.cli_stack import TASKS, StackFolder, running_stack
from support.pages import ROOT
from support.servers import wait_until

from pipeweave.settings import environment

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


NOBODY = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")

# setpriv itself still has root's powers when it executes the first one.
STARTS_ANOTHER = """
import subprocess, sys
subprocess.run([sys.executable, "-c", "import pipeweave.cli, psycopg2"], check=True)
"""


def modes(folder: Path) -> dict[Path, int]:
    """The permissions of a folder and of every folder above it."""
    return {each: stat.S_IMODE(each.stat().st_mode) for each in (folder, *folder.parents)}


def test_as_root_postgres_runs_as_nobody_below_folders_that_stay_closed(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    before = modes(closed)
    with running_stack(closed) as stack:
        server = psutil.Process(stack.ps()["postgres"]["pid"])
        assert server.username() == "nobody"
        assert (stack.data / "postgres").stat().st_uid == server.uids().real
        assert stat.S_IMODE(stack.data.stat().st_mode) == 0o700
        assert modes(closed) == before


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder of nobody's; pytest's own are closed to everyone but root."""
    folder = Path(f"/tmp/pipeweave-test-{os.getpid()}")
    folder.mkdir(mode=0o755)
    (folder / "tasks.py").write_text(TASKS)
    shutil.chown(folder, "nobody", "nogroup")
    yield folder
    shutil.rmtree(folder)


def linked_package(folder: Path) -> Path:
    """The package under its import names, for a Python that does not know of the editable installation."""
    package = folder / "pipeweave"
    package.mkdir(parents=True)
    mapped = (ROOT / name for name in ("orchestrator", "workers", "api", "migrations"))
    for source in (*(ROOT / "pipeweave").iterdir(), *mapped):
        (package / source.name).symlink_to(source)
    # redis asks for it below 3.11.3, which the other Python may be; since 3.11 asyncio has the same.
    (folder / "async_timeout.py").write_text("from asyncio import timeout as timeout\n")
    return folder


def python_of_nobody(folder: Path) -> tuple[list[str], dict[str, str]]:
    """A Python that nobody can execute, with our packages: the one of this test may be root's alone."""
    packages = [str(linked_package(folder / "packages")), *site.getsitepackages()]
    variables = {"PATH": os.defpath, "HOME": str(folder), "PYTHONPATH": os.pathsep.join(packages)}
    variables |= {"PYTHONDONTWRITEBYTECODE": "1", "LANG": environment().get("LANG", "C.UTF-8")}
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, shutil.which(f"python{version}", path=os.defpath + ":/usr/local/bin")):
        if python:
            argv = [*NOBODY, python]
            tried = subprocess.run([*argv, "-c", STARTS_ANOTHER], env=variables, capture_output=True)
            if tried.returncode == 0:
                return argv, variables
    pytest.skip(f"no Python {version} that nobody can execute")


def test_an_ordinary_user_needs_nothing_of_root(open_folder: Path) -> None:
    prefix, variables = python_of_nobody(open_folder)
    stack = StackFolder(open_folder, prefix, variables)
    try:
        stack.up()
        assert {psutil.Process(row["pid"]).username() for row in stack.ps().values()} == {"nobody"}
        with stack.client() as client:
            run_id = client.queue("greet", {"name": "Ada"})["runId"]
            wait_until(lambda: client.task_run(run_id)["status"] == "completed")
        processes = stack.supervisor().children(recursive=True)
    finally:
        done = stack.down()
    assert done.returncode == 0, done.stderr
    assert not any(each.is_running() for each in processes)


def test_a_stack_of_roots_is_not_an_ordinary_users_to_stop(open_folder: Path) -> None:
    prefix, variables = python_of_nobody(open_folder)
    with running_stack(open_folder) as stack:
        other = StackFolder(open_folder, prefix, variables)
        for command in ("ps", "down", "up"):
            refused = other.call(command)
            assert refused.returncode == 1
            assert len(refused.stderr.strip().splitlines()) == 1, refused.stderr
        assert stack.ps()["api"]["state"] == "running"
