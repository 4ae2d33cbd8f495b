"""The garbage collector leaves alone what was loaded; threads share heaps."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
from pathlib import Path

import pytest

from pipeweave.orchestrator.deployment import process_memory
from pipeweave.settings import environment


def test_the_collector_skips_loaded_objects_and_sees_later_ones() -> None:
    try:
        process_memory.freeze_loaded_objects()
        assert gc.get_freeze_count() > 10_000
        assert len(gc.get_objects()) < 1_000
        late: list[object] = []
        late.append(late)
        assert any(each is late for each in gc.get_objects())
    finally:
        gc.unfreeze()


FORK = """
import gc, os, sys
from pipeweave import cli
from pipeweave.orchestrator.deployment import process_memory

def private_kb():
    with open("/proc/self/smaps_rollup") as lines:
        return sum(int(each.split()[1]) for each in lines if each.startswith("Private_Dirty:"))

if sys.argv[1] == "kept":
    process_memory.freeze_loaded_objects()
if os.fork() == 0:
    before = private_kb()
    gc.collect()
    print(private_kb() - before, flush=True)
    os._exit(0)
os.wait()
"""


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="not Linux")
def test_a_child_collects_without_its_own_copy_of_what_it_shares() -> None:
    def copied(method: str) -> int:
        return int(subprocess.check_output([sys.executable, "-c", FORK, method], env=environment()))

    assert copied("kept") < copied("not kept") / 5


HEAPS = """
import ctypes, sys, threading
from pipeweave.orchestrator.deployment import process_memory
if sys.argv[1] == "shared":
    process_memory.limit_malloc_heaps()
gate = threading.Barrier(6)
def allocate():
    gate.wait()
    kept = [bytes(2_000) for _ in range(100)]
    gate.wait()
    return kept
threads = [threading.Thread(target=allocate) for _ in range(6)]
for each in threads: each.start()
for each in threads: each.join()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fopen(sys.argv[2].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="not glibc")
@pytest.mark.parametrize(("how", "are_few"), [("shared", True), ("each", False)])
def test_threads_share_heaps_when_they_are_told_to(tmp_path: Path, how: str, are_few: bool) -> None:
    report = tmp_path / "heaps.xml"
    subprocess.run([sys.executable, "-c", HEAPS, how, str(report)], check=True, env=environment())
    assert (report.read_text().count("<heap nr=") <= process_memory.HEAPS) is are_few
