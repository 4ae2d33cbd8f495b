"""`make near` chooses the tests that say most about a change, and takes them first."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.near import MOST_FILES, ranked, rooms, texts_of
from support.pages import ROOT


@pytest.mark.parametrize(
    ("changed", "first"),
    [
        ("orchestrator/engine/maps.py", "tests/database/engine/"),
        ("orchestrator/starts/triggers/matching.py", "tests/database/starts/"),
        ("pipeweave/spec/document.py", "tests/unit/spec/"),
        ("workers/consumer/runner.py", "tests/unit/workers/"),
        ("api/routes/webhooks.py", "tests/api/test_webhooks_by_http.py"),
    ],
)
def test_the_tests_of_the_room_that_changed_are_among_the_first(changed: str, first: str) -> None:
    found = ranked({ROOT / changed})
    own = [each for each in found if each.startswith(first)]
    others = [
        each for each in found if not each.startswith(("tests/unit/architecture", "tests/unit/docs", first))
    ]
    assert own
    assert not others or found.index(own[0]) < found.index(others[-1])


def test_a_test_that_changed_comes_before_all_others() -> None:
    changed = "tests/flows/runs/test_retries.py"
    assert ranked({ROOT / changed, ROOT / "orchestrator/engine/maps.py"})[0] == changed


def test_what_needs_whole_stacks_is_left_to_the_gate() -> None:
    found = ranked({ROOT / "orchestrator/domain/plan.py"})
    assert 0 < len(found) <= MOST_FILES
    assert not [each for each in found if each.startswith(("tests/flows", "tests/ui"))]


def test_nothing_is_near_where_nothing_changed() -> None:
    assert ranked(set[Path]()) == []


def test_tests_of_the_room_that_import_the_change_come_before_those_that_do_not() -> None:
    chosen = ranked({ROOT / "orchestrator/diagnosis/why_held.py"})
    own = [each for each in chosen if each.startswith("tests/database/diagnosis/")]
    assert own.index("tests/database/diagnosis/test_why.py") < own.index(
        "tests/database/diagnosis/test_verify.py"
    )


def test_a_test_that_holds_a_text_that_was_removed_comes_first_whatever_room_it_is_of() -> None:
    text = "test_a_test_that_holds_a_text_that_was_removed"
    chosen = ranked({ROOT / "orchestrator/diagnosis/why_held.py"}, {text})
    assert chosen[0] == "tests/unit/architecture/test_near.py"


def test_the_texts_of_a_line_are_those_between_what_is_filled_in() -> None:
    line = """    return f"its task is paused since {at}: {reason!r}", 'has room for nobody else', "no" """
    assert list(texts_of(line)) == ["its task is paused since", "has room for nobody else"]


def test_the_rooms_that_can_be_named_are_those_of_the_sources() -> None:
    assert {"engine", "diagnosis", "spec", "routes", "consumer"} <= set(rooms())
