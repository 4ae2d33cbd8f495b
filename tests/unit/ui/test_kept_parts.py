"""A part of a page is made once for all that it shows."""

from __future__ import annotations

import pytest

from pipeweave.api.ui import kept_parts
from pipeweave.api.ui.kept_parts import LARGEST, kept
from pipeweave.orchestrator.store import Cache


@pytest.fixture(autouse=True)
def _nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_parts, "_parts", Cache[bytes, object](10))


class Made:
    """Makes parts, and counts."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        return f"part {self.count}"


@pytest.fixture
def made() -> Made:
    return Made()


def test_what_shows_the_same_is_made_once(made: Made) -> None:
    run = {"id": "prun_1", "status": "running"}
    assert kept("row", "default", run, caller=made) == kept("row", "default", dict(run), caller=made)
    assert made.count == 1


@pytest.mark.parametrize("other", [("row", "other", 1), ("row", "default", 2), ("chart", "default", 1)])
def test_what_shows_anything_else_is_made_anew(made: Made, other: tuple[object, ...]) -> None:
    kept("row", "default", 1, caller=made)
    assert kept(*other, caller=made) == "part 2"


def test_what_is_large_is_not_kept(made: Made) -> None:
    for _ in range(2):
        kept("row", "x" * LARGEST, caller=made)
    assert made.count == 2


def test_all_together_are_bounded_and_those_that_are_shown_stay(made: Made) -> None:
    first = kept("row", 0, caller=made)
    for number in range(50):
        kept("row", number, caller=made)
        assert kept("row", 0, caller=made) == first
    assert len(kept_parts._parts) <= 10
