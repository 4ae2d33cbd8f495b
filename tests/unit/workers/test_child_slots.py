"""What a child does, in memory that its parent reads when it is dead."""

from __future__ import annotations

import threading
from uuid import UUID

import pytest
from support.servers import wait_until

from pipeweave import ids
from pipeweave.workers.consumer import child_slots
from pipeweave.workers.consumer.child_slots import (
    MOST_CALLED,
    MOST_NAMED,
    SLOTS_PER_PLACE,
    KillReason,
    Slot,
    Slots,
)

RUN = ids.new_id()


def task_run(ordinal: int) -> UUID:
    return ids.task_run_id(RUN, ordinal)


def taken(slots: Slots, place: int, pid: int) -> Slot:
    slot = slots.take(place, pid)
    assert slot is not None
    return slot


def test_a_slot_tells_named_and_begun_task_runs() -> None:
    slot = taken(Slots(2), 1, 4711)
    slot.begin(RUN, (1, 2, 3), 2)
    slot.call(task_run(2), deadline=12.5, limit=10.0)
    seen, doing = slot.state(), slot.activity("w@host:1:ab")
    assert (seen.pid, seen.deadline, seen.limit, seen.is_busy) == (4711, 12.5, 10.0, True)
    assert (doing.worker, doing.run_id, doing.named, doing.attempt) == ("w@host:1:ab#4711", RUN, (1, 2, 3), 2)
    assert doing.called == {task_run(2)}


def test_a_returned_call_counts_as_begun_until_it_is_stored_and_has_no_deadline() -> None:
    slot = taken(Slots(1), 0, 4711)
    slot.begin(RUN, (1, 2), 1)
    slot.call(task_run(1), deadline=12.5, limit=10.0)
    slot.returned()
    assert slot.state().deadline == 0.0
    assert slot.activity("w").called == {task_run(1)}
    slot.stored()
    assert slot.activity("w").called == frozenset()
    slot.call(task_run(2), deadline=13.5, limit=10.0)
    assert slot.activity("w").called == {task_run(2)}


def test_nothing_of_a_message_is_left_behind_its_end() -> None:
    slot = taken(Slots(1), 0, 4711)
    slot.begin(RUN, (1, 2), 1)
    slot.call(task_run(1), deadline=12.5, limit=10.0)
    slot.end()
    assert (slot.state().is_busy, slot.state().pid) == (False, 4711)
    assert (slot.activity("w").run_id, slot.activity("w").called) == (None, frozenset())
    slot.begin(RUN, (3,), 1)
    assert slot.activity("w").called == frozenset()


def test_a_slot_that_is_full_says_so_and_writes_over_no_other() -> None:
    slots = Slots(2)
    first, second = taken(slots, 0, 1), taken(slots, 1, 2)
    first.begin(RUN, range(1, MOST_NAMED + 50), 1)
    for ordinal in range(1, MOST_CALLED + 1):
        assert not first.is_full
        first.call(task_run(ordinal), deadline=1.0, limit=1.0)
    assert first.is_full
    assert len(first.activity("w").called) == MOST_CALLED
    assert first.activity("w").named == tuple(range(1, MOST_NAMED + 1))
    assert (second.pid, second.state().is_busy) == (2, False)
    first.stored()
    assert not first.is_full


def test_a_dead_child_s_slot_stays_until_its_parent_has_read_it() -> None:
    slots = Slots(2)
    dead = [taken(slots, 0, pid) for pid in range(1, SLOTS_PER_PLACE + 1)]
    dead[0].begin(RUN, (1,), 1)
    assert slots.take(0, 99) is None, "none of its place is free"
    assert slots.take(1, 98) is not None, "the next place has its own"
    assert [each.pid for each in slots.taken() if each.pid != 98] == list(range(1, SLOTS_PER_PLACE + 1))
    dead[0].free()
    again = taken(slots, 0, 99)
    assert (again.pid, again.state().is_busy) == (99, False)


def test_why_a_child_was_killed_is_told_until_another_has_its_slot() -> None:
    slots = Slots(1)
    slot = taken(slots, 0, 4711)
    assert slot.state().ending is KillReason.UNKNOWN
    slot.condemn(KillReason.OVERDUE)
    assert slot.state().ending is KillReason.OVERDUE
    slot.free()
    assert list(slots.taken()) == []
    assert taken(slots, 0, 4712).state().ending is KillReason.UNKNOWN


def test_stopping_and_mixed_priorities_are_told_to_all() -> None:
    slots = Slots(1)
    assert (slots.is_stopping, slots.is_mixed) == (False, False)
    slots.set_mixed(True)
    assert (slots.is_stopping, slots.is_mixed) == (False, True)
    slots.stop()
    slots.set_mixed(False)
    assert (slots.is_stopping, slots.is_mixed) == (True, False)


def test_a_fenced_call_is_seen_with_its_remaining_time() -> None:
    slot = taken(Slots(1), 0, 4711)
    slot.begin(RUN, (1, 2), 1)
    slot.call(task_run(1), 100.0, 95.0)
    assert slot.state().fenced_until == 0
    slot.fence(100.0, 30.0)
    assert (slot.state().fenced_until, slot.state().deadline) == (30.0, 100.0)


def test_a_call_that_returned_in_time_leaves_nothing_to_the_next_one() -> None:
    slot = taken(Slots(1), 0, 4711)
    slot.begin(RUN, (1, 2), 1)
    slot.call(task_run(1), 100.0, 95.0)
    slot.returned()
    slot.fence(100.0, 30.0)
    assert slot.state().fenced_until == 0
    slot.call(task_run(2), 101.0, 95.0)
    assert slot.state().fenced_until == 0


def test_a_call_is_condemned_by_its_deadline_and_no_other_call_is() -> None:
    slot = taken(Slots(1), 0, 4711)
    slot.begin(RUN, (1, 2), 1)
    slot.call(task_run(1), deadline=12.5, limit=10.0)
    slot.returned()
    assert not slot.condemn(KillReason.OVERDUE, 12.5), "it has returned"
    slot.call(task_run(2), deadline=13.5, limit=10.0)
    assert not slot.condemn(KillReason.OVERDUE, 12.5), "another call is under way"
    assert slot.state().ending is KillReason.UNKNOWN
    assert slot.condemn(KillReason.OVERDUE, 13.5)
    assert slot.state().ending is KillReason.OVERDUE


def test_a_child_whose_call_is_condemned_calls_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parent is about to kill it: the next call would be killed in place of this one."""
    monkeypatch.setattr(child_slots, "KILL_WITHIN_S", 30.0)
    slot = taken(Slots(1), 0, 4711)
    slot.begin(RUN, (1, 2), 1)
    slot.call(task_run(1), deadline=12.5, limit=10.0)
    assert slot.condemn(KillReason.OVERDUE, 12.5)
    child = threading.Thread(target=slot.returned, daemon=True)
    child.start()
    wait_until(lambda: slot.state().deadline == 0.0, what="the call did not return")
    assert child.is_alive()
    assert not slot.condemn(KillReason.OVERDUE, 12.5), "the note is taken back: it returned in time"
    child.join(30)
    assert not child.is_alive()


def test_all_places_are_taken_when_each_has_a_child() -> None:
    slots = Slots(2)
    assert not slots.are_taken
    taken(slots, 0, 1)
    assert not slots.are_taken
    taken(slots, 1, 2)
    assert slots.are_taken


def test_calls_that_run_at_once_are_forgotten_one_by_one() -> None:
    slot = taken(Slots(1), 0, 4711)
    slot.begin(RUN, (1, 2, 3), 1)
    for ordinal in (1, 2, 3):
        slot.record(task_run(ordinal))
    assert slot.room == MOST_CALLED - 3
    slot.forget([task_run(1)])
    assert slot.activity("w").called == {task_run(each) for each in (2, 3)}
    slot.forget([task_run(2), task_run(3)])
    assert (slot.activity("w").called, slot.room) == (frozenset(), MOST_CALLED)


def test_of_calls_that_run_at_once_one_is_to_blame() -> None:
    slot = taken(Slots(1), 0, 4711)
    slot.begin(RUN, (1, 2), 1)
    slot.record(task_run(1))
    slot.record(task_run(2))
    slot.watch(task_run(2), deadline=12.5, limit=10.0)
    assert (slot.state().deadline, slot.state().limit) == (12.5, 10.0)
    assert slot.activity("w").blamed == task_run(2)
    slot.watch(task_run(1), deadline=13.5, limit=11.0)
    assert slot.activity("w").blamed == task_run(1)
    assert not slot.condemn(KillReason.OVERDUE, 12.5)
    slot.returned()
    assert (slot.state().deadline, slot.activity("w").blamed) == (0.0, None)


def test_children_take_nothing_while_their_worker_drains_or_stops() -> None:
    slots = Slots(1)
    assert not slots.takes_nothing
    slots.set_draining(True)
    assert (slots.takes_nothing, slots.is_stopping) == (True, False)
    slots.set_draining(False)
    assert not slots.takes_nothing
    slots.stop()
    assert slots.takes_nothing


def test_a_slot_counts_calls_and_messages_of_one_child() -> None:
    slots = Slots(1)
    first = taken(slots, 0, 1)
    first.begin(RUN, (1, 2), 1)
    first.call(task_run(1), deadline=1.0, limit=1.0)
    first.record(task_run(2))
    first.end()
    assert first.starts == 2
    assert first.fetched_at > 0
    for _ in range(SLOTS_PER_PLACE):
        first.free()
        first = taken(slots, 0, 2)
    assert (first.starts, first.fetched_at) == (0, 0.0)


def test_children_see_how_many_promotions_their_parent_has_noticed() -> None:
    slots = Slots(1)
    assert slots.promotions == 0
    slots.set_promotions(2)
    assert (slots.promotions, slots.is_mixed, slots.is_draining) == (2, False, False)
    slots.set_promotions(1_000)
    assert slots.promotions == 255
