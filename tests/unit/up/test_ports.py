"""Ports are chosen for one process at a time."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pipeweave.errors import PortInUse, Unavailable
from pipeweave.up.folder import Secrets
from pipeweave.up.options import UpOptions
from pipeweave.up.ports import LOOPBACK, free_port, is_free
from pipeweave.up.stack import with_ports

SECRETS = Secrets("1", "2", "3", "4", "5")
# How many ports each of several processes chooses, and how many there are: without an agreement, two of them
# choose the same one all but once in a million times.
EACH, CHOICE = 20, 64

CHOOSER = f"""
import sys
from pipeweave.up.ports import free_port
first = int(sys.argv[1])
print(*[free_port(among=range(first, first + {CHOICE})) for _ in range({EACH})], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def few() -> range:
    """Few ports, beside those that other tests choose from."""
    first = random.randrange(10_000, 14_000)
    return range(first, first + CHOICE)


@pytest.fixture
def port(few: range) -> int:
    """One that is free."""
    return next(each for each in few if is_free(each))


@contextmanager
def choosing(among: range) -> Iterator[subprocess.Popen[str]]:
    """A process that chooses ports and then lives on."""
    argv = [sys.executable, "-c", CHOOSER, str(among.start)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def chosen(process: subprocess.Popen[str]) -> list[int]:
    """The ports that it has chosen."""
    assert process.stdout is not None
    return list(map(int, process.stdout.readline().split()))


def options(folder: Path, port: int) -> UpOptions:
    return UpOptions(folder, LOOPBACK, port, 1, 1, (), "default")


def test_a_port_somebody_listens_on_is_not_free(port: int) -> None:
    with socket.create_server((LOOPBACK, port)):
        assert not is_free(port)
        assert free_port(port) != port
    assert free_port(port) == port


def test_processes_that_start_at_the_same_moment_choose_different_ports(few: range) -> None:
    with ExitStack() as stack:
        processes = [stack.enter_context(choosing(few)) for _ in range(2)]
        ports = [port for process in processes for port in chosen(process)]
    assert len(ports) == len(set(ports)) == 2 * EACH


def test_what_a_killed_process_has_chosen_may_be_chosen_again(few: range) -> None:
    with choosing(few) as process:
        ports = chosen(process)
        assert free_port(ports[0], few) != ports[0]
    assert free_port(ports[0], few) == ports[0]


def test_a_process_that_has_chosen_every_port_gets_no_other(port: int) -> None:
    assert free_port(among=[port]) == port
    with pytest.raises(Unavailable, match=f"between {port} and {port}"):
        free_port(port, [port])


def test_the_servers_leave_the_port_that_the_user_names_to_the_api(tmp_path: Path, port: int) -> None:
    """It may be the one that a server had before."""
    last_time = replace(SECRETS, postgres_port=port, valkey_port=port, flower_port=port)
    started, servers = with_ports(options(tmp_path, port), last_time)
    assert started.port == port
    ports = {port, servers.postgres_port, servers.valkey_port, servers.flower_port}
    assert len(ports) == 4 and None not in ports


def test_the_servers_have_the_ports_that_they_had_before(tmp_path: Path, few: range) -> None:
    first, second, third = [each for each in few if is_free(each)][:3]
    last_time = replace(SECRETS, postgres_port=first, valkey_port=second, flower_port=third)
    assert with_ports(options(tmp_path, 0), last_time)[1] == last_time


def test_a_named_port_on_which_somebody_listens_is_refused(tmp_path: Path, port: int) -> None:
    with socket.create_server((LOOPBACK, port)), pytest.raises(PortInUse):
        with_ports(options(tmp_path, port), SECRETS)
