"""Which queues a worker serves, and what it tells of its tasks."""

from __future__ import annotations

import logging

import pytest

from pipeweave import task
from pipeweave.authoring.task_loading import Loaded
from pipeweave.errors import InvalidInput, InvalidTask
from pipeweave.workers.process.served_queues import MAX_QUEUES, ServedQueues


def loaded(**queues: str | None) -> Loaded:
    """Tasks with these queues."""

    def function() -> None:
        """Does nothing."""

    return Loaded({name: task(id=name, queue=queue)(function) for name, queue in queues.items()}, [])


def test_by_default_a_worker_serves_the_default_queue_and_those_of_its_tasks() -> None:
    served = ServedQueues.of("t", "python", loaded(count=None, render="gpu", draw="gpu"))
    assert served.tasks == ("pipeweave.t.python", "pipeweave.t.python/gpu")
    assert all(each.is_served for each in served.loaded)
    assert served.all[-2:] == (served.own, "pipeweave.t.!http")


def test_a_worker_of_chosen_queues_serves_only_the_tasks_in_them() -> None:
    served = ServedQueues.of("t", "python", loaded(count=None, render="gpu"), ["gpu"])
    assert served.all == ("pipeweave.t.python/gpu", served.own)
    assert {each.id: each.is_served for each in served.loaded} == {"count": False, "render": True}


def test_default_names_the_queue_of_tasks_without_one() -> None:
    served = ServedQueues.of("t", "python", loaded(count=None, plain="default"), ["default"])
    assert served.tasks == ("pipeweave.t.python",)
    assert all(each.is_served for each in served.loaded)


def test_workers_share_their_own_queue_if_they_have_the_same_code_and_queues() -> None:
    one, same = (ServedQueues.of("t", "python", loaded(count=None, render="gpu")) for _ in range(2))
    fewer = ServedQueues.of("t", "python", loaded(count=None))
    chosen = ServedQueues.of("t", "python", loaded(count=None, render="gpu"), ["gpu"])
    assert one.own == same.own
    assert len({one.own, fewer.own, chosen.own}) == 3
    assert one.own.startswith("pipeweave.t.python#")


def test_a_queue_that_no_task_has_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        served = ServedQueues.of("t", "python", loaded(count=None), ["default", "gpus"])
    assert served.tasks == ("pipeweave.t.python", "pipeweave.t.python/gpus")
    assert "queue.no_task" in caplog.messages


@pytest.mark.parametrize("name", ["a b", "a/b", "a#b", "ä", "x" * 101])
def test_a_name_that_no_queue_can_have_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="is not the name of a queue"):
        ServedQueues.of("t", "python", loaded(count=None), [name])
    with pytest.raises(InvalidTask, match="queue"):
        loaded(count=name)


# --- labels -----------------------------------------------------------------------------------------------


def test_a_worker_with_labels_serves_a_queue_for_each_set_of_them() -> None:
    labels = {"zone": "eu", "gpu": "a100"}
    served = ServedQueues.of("t", "python", loaded(count=None, render="big"), labels=labels)
    assert served.tasks == tuple(
        f"pipeweave.t.python{name}{required}"
        for required in ("", "+gpu=a100", "+zone=eu", "+gpu=a100+zone=eu")
        for name in ("", "/big")
    )


def test_a_worker_of_chosen_queues_serves_no_labels_of_others() -> None:
    served = ServedQueues.of("t", "python", loaded(render="big"), ["big"], {"zone": "eu"})
    assert served.tasks == ("pipeweave.t.python/big", "pipeweave.t.python/big+zone=eu")


def test_workers_with_other_labels_share_no_queue_of_their_own() -> None:
    made = [
        ServedQueues.of("t", "python", loaded(count=None), labels=each)
        for each in ({}, {"a": "b"}, {"a": "c"}, {"b": "a"})
    ]
    assert len({each.own for each in made}) == len(made)


def test_more_queues_than_a_worker_can_read_at_a_good_pace_are_refused_with_the_way_out() -> None:
    labels = {f"l{number}": "x" for number in range(6)}
    four, five = (loaded(**{f"t{number}": f"q{number}" for number in range(most)}) for most in (3, 4))
    assert len(ServedQueues.of("t", "python", four, labels=labels).tasks) == MAX_QUEUES
    with pytest.raises(InvalidInput, match="5 queues with 6 labels make 320") as caught:
        ServedQueues.of("t", "python", five, labels=labels)
    assert caught.value.errors[0].field == "labels" and "--queues" in str(caught.value.hint)
