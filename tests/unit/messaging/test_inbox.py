"""What is dropped is said, in few lines."""

from __future__ import annotations

import logging

import pytest

from pipeweave.orchestrator.messaging.inbox import LOG_EVERY_S, DropLog


def test_masses_of_junk_make_a_line_a_second_that_counts_them(caplog: pytest.LogCaptureFixture) -> None:
    now = [1_000.0]
    drops = DropLog(clock=lambda: now[0])
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            drops.dropped("q", "junk")
        now[0] += LOG_EVERY_S
        drops.dropped("q", "other junk")
    said = [(each.reason, each.count) for each in caplog.records]  # type: ignore[attr-defined]
    assert said == [("junk", 1), ("other junk", 100)]
