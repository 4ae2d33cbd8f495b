"""Who looks at what is due looks again while there is more of it than one look takes."""

from __future__ import annotations

import pytest

from pipeweave.orchestrator.store.isolation import Unfinished
from pipeweave.orchestrator.waits import due


@pytest.mark.parametrize(
    ("looks", "left"),
    [
        ([Unfinished(1000), Unfinished(1000), 3, 5], [5]),
        # None of them can end now: the next turn tries again.
        ([Unfinished(0), 7], [7]),
        ([0, 7], [7]),
    ],
)
def test_a_turn_is_over_when_a_look_has_seen_all_that_is_due_or_ends_nothing(
    looks: list[int], left: list[int]
) -> None:
    answers = iter(looks)
    due.until_through(lambda: next(answers))
    assert list(answers) == left
