"""A child whose parent is gone is killed by the kernel; to ask for that loads nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.servers import wait_until

# A parent whose child says what it has loaded for it, and then waits for ever.
_PARENT = """
import os, sys, time
import cffi
from celery import platforms
from pipeweave.workers.process import parent_death
parent_death.ask_directly()
before = set(sys.modules)
if os.fork() == 0:
    platforms.set_pdeathsig("SIGKILL")
    print(os.getpid(), *sorted(set(sys.modules) - before), flush=True)
time.sleep(600)
"""


def _is_gone(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            # What nobody waits for stays as a zombie.
            return file.read().rpartition(")")[2].split()[0] in ("Z", "X")
    except FileNotFoundError:
        return True


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such signal")
def test_a_child_ends_with_its_parent_and_loads_nothing_for_it() -> None:
    child = 0
    with subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None
            number, *loaded = parent.stdout.readline().split()
            child = int(number)
            assert loaded == []
        finally:
            parent.kill()
    wait_until(lambda: _is_gone(child), what="the child outlives its parent")
