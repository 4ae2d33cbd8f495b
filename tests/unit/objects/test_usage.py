"""What lies in a backend is measured from a sample, and each number says how exact it is."""

from __future__ import annotations

import hashlib
from itertools import count

import pytest
from support.memory_storage import MemoryStorage

from pipeweave.errors import InvalidInput
from pipeweave.orchestrator.objects import usage
from pipeweave.orchestrator.objects.usage import BY_CONTENT, MOST_SEEN


def a_value(number: int) -> str:
    digest = hashlib.sha256(str(number).encode()).hexdigest()
    return f"{BY_CONTENT}{digest[:2]}/{digest}"


def test_a_small_storage_is_counted_exactly() -> None:
    storage = MemoryStorage(
        {"runs/a/1": b"xx", "runs/a/2": b"x", "temp-uploads/u/f": b"", "other/x": b"xxxx"}
    )
    found = usage.measure(storage)
    assert {each.prefix: (each.objects, each.bytes) for each in found.parts if each.objects} == {
        "runs/": (2, 3),
        "temp-uploads/": (1, 0),
    }
    assert not any(each.is_capped or each.is_estimate for each in found.parts)
    assert found.seen == 3
    assert [each.path for each in found.largest][:1] == ["runs/a/1"]


def test_a_beginning_narrows_it() -> None:
    storage = MemoryStorage({"runs/a/1": b"xx", "runs/b/1": b"x"})
    [part] = usage.measure(storage, "runs/a").parts
    assert (part.prefix, part.objects) == ("runs/a", 1)
    assert [each.prefix for each in usage.measure(storage, "r").parts] == ["runs/"]


@pytest.mark.parametrize("prefix", ["other/", "../", "/runs", "runs\0"])
def test_other_paths_are_nobodys_business(prefix: str) -> None:
    with pytest.raises(InvalidInput):
        usage.measure(MemoryStorage({"other/x": b"x"}), prefix)


def test_many_values_are_estimated_from_some_of_their_folders() -> None:
    number = 2 * MOST_SEEN
    storage = MemoryStorage({a_value(each): b"xyz" for each in range(number)})
    [part] = usage.measure(storage, BY_CONTENT).parts
    assert part.is_estimate
    assert not part.is_capped
    assert part.objects == pytest.approx(number, rel=0.2)
    assert part.bytes == 3 * part.objects


def test_of_many_others_it_says_at_least() -> None:
    storage = MemoryStorage({f"runs/{each:06}": b"x" for each in range(MOST_SEEN + 1)})
    [part] = usage.measure(storage, "runs/").parts
    assert (part.objects, part.is_capped, part.is_estimate) == (MOST_SEEN, True, False)


def test_a_slow_storage_is_not_asked_for_longer_than_the_budget() -> None:
    seconds = count(step=usage.BUDGET_S)
    storage = MemoryStorage({"runs/a": b"x", "temp-uploads/u/f": b"x"})
    found = usage.measure(storage, clock=lambda: float(next(seconds)))
    assert all(each.is_capped for each in found.parts[1:])
