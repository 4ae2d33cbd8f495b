"""The garbage collector leaves alone what was loaded."""

from __future__ import annotations

import gc
import os

from pipeweave.orchestrator import memory


def test_what_was_loaded_is_looked_at_no_more_and_what_comes_later_is() -> None:
    try:
        memory.keep_loaded()
        assert gc.get_freeze_count() > 10_000
        assert len(gc.get_objects()) < 1_000
        late: list[object] = []
        late.append(late)
        assert any(each is late for each in gc.get_objects())
    finally:
        gc.unfreeze()


def test_a_child_collects_without_its_own_copy_of_what_it_shares() -> None:
    try:
        memory.keep_loaded()
        read_end, write_end = os.pipe()
        if (child := os.fork()) == 0:
            before = private_kb()
            gc.collect()
            os.write(write_end, str(private_kb() - before).encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert int(os.read(read_end, 100)) < 2_000
    finally:
        gc.unfreeze()


def private_kb() -> int:
    with open("/proc/self/smaps_rollup") as lines:
        return sum(int(each.split()[1]) for each in lines if each.startswith("Private_Dirty:"))
