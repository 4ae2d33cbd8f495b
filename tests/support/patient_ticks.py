"""Ticks of a test's own process that wait for all their chores, however busy the machine is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeweave.orchestrator.recovery import late_chores

# Far beyond what any chore of a test takes (s).
WAIT_S = 60.0


@pytest.fixture(autouse=True, scope="session")
def patient_ticks() -> Iterator[None]:
    """What a tick did is counted by that tick."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(late_chores, "WAIT_S", WAIT_S)
        yield
