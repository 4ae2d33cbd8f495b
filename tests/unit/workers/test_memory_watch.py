"""Which process a worker replaces when its processes take more memory than WORKER_MAX_MEMORY."""

from __future__ import annotations

import logging
import os

import pytest

from pipeweave.workers.process.memory_watch import AGAIN_AFTER_S, LOOK_EVERY_S, TOLD_EVERY_S, MemoryWatch

MB = 10**6
PARENT, FIRST, SECOND = os.getpid(), 101, 102
CHILDREN = [FIRST, SECOND]


class Machine:
    """Processes with sizes that a test sets, and a clock that it moves."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.sizes = {PARENT: 40 * MB, FIRST: 40 * MB, SECOND: 40 * MB}
        # What they share counts in each resident size.
        self.shared = 20 * MB
        self.shares_read = 0

    def share(self, pid: int) -> int | None:
        self.shares_read += 1
        return self.sizes.get(pid)

    def resident(self, pid: int) -> int | None:
        return self.sizes[pid] + self.shared if pid in self.sizes else None

    def watch(self, limit_mb: int) -> MemoryWatch:
        watch = MemoryWatch(limit_mb * MB, clock=lambda: self.now, resident=self.resident, share=self.share)
        for pid in CHILDREN:
            watch.begin(pid)
        return watch

    def later(self, seconds: float = LOOK_EVERY_S) -> None:
        self.now += seconds


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_the_child_that_takes_most_of_those_that_have_grown_is_replaced(machine: Machine) -> None:
    watch = machine.watch(300)
    assert watch.look(CHILDREN) is None
    machine.sizes |= {FIRST: 120 * MB, SECOND: 200 * MB}
    machine.later()
    assert watch.look(CHILDREN) == SECOND
    assert watch.replaced == 1


def test_what_processes_share_does_not_count_twice(machine: Machine) -> None:
    watch = machine.watch(300)
    watch.look(CHILDREN)
    machine.sizes |= {FIRST: 240 * MB, SECOND: 10 * MB}
    machine.shared = 500 * MB
    machine.later()
    assert watch.look(CHILDREN) is None, "290 MB are proportionally theirs"


def test_below_the_limit_only_the_cheap_sizes_are_read(machine: Machine) -> None:
    watch = machine.watch(1_000)
    watch.look(CHILDREN)
    before = machine.shares_read
    machine.later()
    watch.look(CHILDREN)
    assert machine.shares_read == before


def test_a_replacement_gets_time_to_show_before_the_next_one(machine: Machine) -> None:
    watch = machine.watch(300)
    watch.look(CHILDREN)
    machine.sizes |= {FIRST: 200 * MB, SECOND: 200 * MB}
    machine.later()
    assert watch.look(CHILDREN) == FIRST
    machine.later()
    assert watch.look(CHILDREN) is None
    machine.later(AGAIN_AFTER_S)
    assert watch.look(CHILDREN) == SECOND, "the first one is leaving already"


def test_without_a_limit_nothing_is_looked_at(machine: Machine) -> None:
    machine.sizes |= {FIRST: 10_000 * MB}
    assert machine.watch(0).look(CHILDREN) is None
    assert machine.shares_read == 0


def test_children_that_have_not_grown_are_left_alone_and_the_log_says_so_once_an_hour(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    watch = machine.watch(100)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert watch.look(CHILDREN) is None
            machine.later()
        assert [each.message for each in caplog.records] == ["worker.memory_cap_low"]
        assert vars(caplog.records[0])["limit_mb"] == 100
        machine.later(TOLD_EVERY_S)
        watch.look(CHILDREN)
    assert len(caplog.records) == 2
    assert watch.replaced == 0 and not watch.wants_restart


def test_a_worker_whose_parent_process_has_grown_wants_to_start_again(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    watch = machine.watch(300)
    watch.look(CHILDREN)
    machine.sizes |= {PARENT: 400 * MB, FIRST: 90 * MB}
    machine.later()
    with caplog.at_level(logging.WARNING):
        assert watch.look(CHILDREN) is None
    assert watch.wants_restart
    assert vars(caplog.records[0])["ends"] == "worker"
    machine.later(AGAIN_AFTER_S)
    assert watch.look(CHILDREN) is None


def test_a_new_child_with_the_id_of_an_old_one_is_measured_anew(machine: Machine) -> None:
    watch = machine.watch(200)
    watch.look(CHILDREN)
    machine.later()
    watch.look([SECOND])
    machine.sizes |= {FIRST: 150 * MB}
    watch.begin(FIRST)
    machine.later()
    assert watch.look(CHILDREN) is None, "it began with as much"
