"""What processes use, as /proc says it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support.servers import wait_until

from pipeweave import process_use

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="there is no /proc")
SIZE = 64 * 2**20


# A small process of its own: in one with many objects the two would soon have pages of their own.
_FORKED = f"""
import os, mmap, signal
from pipeweave import process_use
memory = mmap.mmap(-1, {SIZE})
memory.write(b"x" * {SIZE})
alone = process_use.memory_of(os.getpid())
has_read, says = os.pipe()
pid = os.fork()
if pid == 0:
    memory[:{SIZE}:4096]
    os.write(says, b"x")
    signal.pause()
os.read(has_read, 1)
print(alone, process_use.memory_of(os.getpid()) + process_use.memory_of(pid))
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
"""


def test_what_forked_processes_share_counts_once_among_them() -> None:
    said = subprocess.run([sys.executable, "-c", _FORKED], capture_output=True, text=True, check=True).stdout
    alone, together = map(int, said.split())
    assert alone > SIZE
    assert together < alone + SIZE / 2


def test_where_the_kernel_does_not_say_the_share_the_resident_size_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_use, "share_of", lambda pid: None)
    use = process_use.use_of(os.getpid())
    assert use is not None and process_use.memory_of(os.getpid()) == pytest.approx(use.rss_bytes, rel=0.2)


def test_a_process_that_is_gone_uses_nothing_that_could_be_said() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    assert process_use.memory_of(gone.pid) is None
    assert process_use.use_of(gone.pid) is None
    assert process_use.families([gone.pid]) == {gone.pid: []}


def test_a_family_is_a_process_and_what_it_started() -> None:
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as parent:
        wait_until(lambda: len(process_use.families([parent.pid])[parent.pid]) == 2)
        family = process_use.families([parent.pid, os.getpid()])
        assert family[parent.pid][0] == parent.pid
        assert set(family[parent.pid]) < set(family[os.getpid()])
        parent.communicate(b"x\n")
