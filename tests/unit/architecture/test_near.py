"""`make near` chooses the tests that say most about a change, and takes them first."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.near import MOST_FILES, ranked
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
