"""What `pipeweave ps` says of memory and processor time."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest
from support.servers import wait_until

from pipeweave import process_use
from pipeweave.cli.support.process_meter import UseMeter
from pipeweave.up.processes import ProcessRow

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="there is no /proc")


def row(name: str, pid: int | None) -> ProcessRow:
    return ProcessRow(name, "running", pid, None, None, 0, 0, 15)


@pytest.fixture
def busy() -> Iterator[subprocess.Popen[bytes]]:
    """A shell whose child computes."""
    with subprocess.Popen(
        ["/bin/sh", "-c", "sh -c 'while :; do :; done' & wait"], start_new_session=True
    ) as shell:
        yield shell
        os.killpg(shell.pid, 9)


def computed(pid: int, seconds: float) -> None:
    """Wait until a process and its children have used so much more processor time."""
    before = spent(pid)
    wait_until(lambda: spent(pid) >= before + seconds)


def spent(pid: int) -> float:
    uses = map(process_use.use_of, process_use.families([pid])[pid])
    return sum(use.cpu_s for use in uses if use)


def test_a_process_is_measured_with_what_it_started(busy: subprocess.Popen[bytes]) -> None:
    meter = UseMeter(pause=lambda _: computed(busy.pid, 0.2))
    (shown,) = meter.measure([row("worker-1", busy.pid)])
    assert shown["cpuPercent"] > 0
    assert shown["memoryBytes"] > 100_000
    assert shown["name"] == "worker-1"


def test_a_process_that_does_not_run_has_no_measures() -> None:
    (shown,) = UseMeter(pause=lambda _: None).measure([row("beat", None)])
    assert (shown["cpuPercent"], shown["memoryBytes"]) == (None, None)
