"""When beat looks for attempts whose delay is over."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeweave.workers.loops.attempt_looks import EVERY_S, IN_USE_FOR_S, SELDOM_S, AttemptLooks


def test_it_looks_seldom_where_no_attempt_waits() -> None:
    looks = AttemptLooks()
    assert not looks.saw(10.0, None)
    assert looks.next_at == 10.0 + SELDOM_S
    assert looks.until_foreseen(10.1) is None


def test_an_attempt_that_will_be_due_soon_is_looked_at_when_it_is() -> None:
    looks = AttemptLooks()
    assert not looks.saw(10.0, 0.2)
    assert (looks.next_at, looks.until_foreseen(10.05)) == (10.2, 10.2 - 10.05)
    assert looks.saw(10.2, -0.001)
    assert not looks.are_often(10.2)


def test_a_delay_that_no_look_has_seen_makes_the_looks_more_frequent_for_a_while() -> None:
    looks = AttemptLooks()
    looks.saw(10.0, None)
    assert looks.saw(10.25, -0.2)
    assert looks.next_at == 10.25 + EVERY_S
    assert looks.are_often(10.25 + IN_USE_FOR_S - 1)
    assert not looks.are_often(10.25 + IN_USE_FOR_S)


def test_an_attempt_that_was_foreseen_and_is_late_makes_no_more_looks() -> None:
    looks = AttemptLooks()
    looks.saw(10.0, 0.1)
    assert looks.saw(12.0, -1.9)
    assert not looks.are_often(12.0)


@given(
    st.lists(
        st.tuples(st.floats(0.001, 0.25), st.none() | st.floats(-1, 0.3)),
        min_size=1,
        max_size=30,
    )
)
def test_the_next_look_is_never_later_than_the_attempt_that_is_known(
    told: list[tuple[float, float | None]],
) -> None:
    looks, now = AttemptLooks(), 0.0
    for passed_s, due_in_s in told:
        now += passed_s
        is_due = looks.saw(now, due_in_s)
        assert is_due == (due_in_s is not None and due_in_s <= 0)
        assert now <= looks.next_at <= now + max(SELDOM_S, due_in_s or 0)
        if due_in_s is not None and due_in_s > 0:
            assert looks.next_at == now + due_in_s
