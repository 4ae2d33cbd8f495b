"""A token and a tenant have their shares of the streams of a process."""

from __future__ import annotations

from uuid import uuid4

import pytest

from pipeweave.errors import TooManyStreams
from pipeweave.orchestrator.stream import Holder
from pipeweave.orchestrator.stream.shares import check

MOST = 100


def filled(held: list[Holder], wanting: Holder) -> int:
    """How many it gets until it is refused."""
    before = len(held)
    while True:
        try:
            check(held, wanting, MOST)
        except TooManyStreams:
            return len(held) - before
        held.append(wanting)


def test_alone_a_token_gets_half_and_a_tenant_three_quarters() -> None:
    held: list[Holder] = []
    assert [filled(held, Holder(uuid4(), "acme")) for _ in range(3)] == [50, 25, 0]


def test_each_who_comes_next_finds_a_place() -> None:
    held: list[Holder] = []
    got = [filled(held, Holder(uuid4(), f"tenant-{each}")) for each in range(5)]
    assert got == [50, 25, 13, 6, 3]
    check(held, Holder(uuid4(), "another"), MOST)


def test_a_token_for_many_tenants_has_one_share() -> None:
    held: list[Holder] = []
    token = uuid4()
    assert [filled(held, Holder(token, each)) for each in ("acme", "other")] == [50, 0]


def test_a_full_process_says_so() -> None:
    with pytest.raises(TooManyStreams, match="1 streams are open, as many as this process serves"):
        check([Holder(uuid4(), "acme")], Holder(uuid4(), "other"), 1)
    check([], Holder(uuid4(), "acme"), 1)
