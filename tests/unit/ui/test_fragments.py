"""A fragment is rendered once for all who look at it, and packed once."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from uuid import uuid4

import pytest

from pipeweave.api.http import Caller
from pipeweave.api.ui.live_views import TAGS_BEHIND, Fragments, LiveView, shared
from pipeweave.orchestrator.security import READ, CallerAccess


class Screen:
    """Renders a fragment that says what the test sets, and counts."""

    def __init__(self) -> None:
        self.text, self.rendered = "one", 0
        self.fragments = Fragments(self._render)

    def _render(self, view: LiveView) -> bytes:
        self.rendered += 1
        return self.text.encode()

    def view(self) -> LiveView:
        caller = Caller(CallerAccess(uuid4(), "alice", ("default",), (READ,)), "default")
        return LiveView(shared(caller), "http://here", "/runs", self.fragments)


@pytest.fixture
def screen() -> Iterator[Screen]:
    return Screen()


def test_whoever_looks_soon_after_another_gets_the_same(screen: Screen) -> None:
    first = screen.fragments.get(screen.view())
    assert screen.fragments.get(screen.view()) is first
    assert screen.rendered == 1


def test_who_comes_late_for_an_announced_one_gets_what_is_kept(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    announced = screen.view().compute()
    for text in ("two", "three"):
        screen.text = text
        screen.view().compute()
    # It is old for whoever was told of nothing, and new enough for who was told of the first one.
    monkeypatch.setattr("time.monotonic", lambda: 1e9)
    assert screen.fragments.get(screen.view(), announced).body == b"three"
    assert screen.rendered == 3
    screen.text = "four"
    assert screen.fragments.get(screen.view(), "a tag of another process").body == b"four"


def test_tags_behind_are_bounded(screen: Screen) -> None:
    for each in range(3 * TAGS_BEHIND):
        screen.text = str(each)
        screen.view().compute()
    assert len(screen.fragments.get(screen.view()).tags) == TAGS_BEHIND + 1


def test_what_stays_equal_is_packed_once(screen: Screen) -> None:
    screen.view().compute()
    packed = screen.fragments.get(screen.view()).packed
    assert gzip.decompress(packed) == b"one"
    screen.view().compute()
    assert screen.fragments.get(screen.view()).packed is packed


def test_who_has_changed_something_gets_nothing_that_is_older(screen: Screen) -> None:
    before = screen.fragments.get(screen.view())
    screen.text = "two"
    screen.fragments.forget()
    assert screen.fragments.get(screen.view(), before.tag).body == b"two"


def test_a_page_that_names_the_moment_of_what_it_has_gets_what_is_kept(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: 1_795_920_986.3102417)
    first = screen.fragments.get(screen.view())
    screen.fragments.get(screen.view(), since=float(f"{first.read_at:.6f}"))
    assert screen.rendered == 1


def test_a_page_never_goes_back_in_time(screen: Screen) -> None:
    before = screen.fragments.get(screen.view())
    screen.text = "two"
    after = screen.fragments.get(screen.view(), before.tag, before.read_at + 1e-6)
    assert after.body == b"two"
    assert screen.fragments.get(screen.view(), since=after.read_at) is after


def test_who_began_earlier_and_was_slower_does_not_win(screen: Screen) -> None:
    render = screen.fragments._render

    def slowly(view: LiveView) -> bytes:
        seen = render(view)
        screen.fragments._render = render
        screen.text = "two"
        view.compute()
        return seen

    screen.fragments._render = slowly
    assert screen.fragments.compute(screen.view()).body == b"two"
    assert screen.fragments.get(screen.view()).body == b"two"


def test_a_page_that_says_what_a_person_may_decide_is_shared_with_nobody() -> None:
    ann, bob = (
        Caller(CallerAccess(uuid4(), name, ("default",), (READ,)), "default") for name in ("ann", "bob")
    )
    assert shared(ann) == shared(bob)
    assert shared(ann, is_personal=True) != shared(bob, is_personal=True)
    assert shared(ann, is_personal=True).access.name == "ann"
