"""Tallies: a row keeps a bounded number of error codes."""

from __future__ import annotations

from pipeweave.orchestrator.telemetry.statistics.tallies import MOST_CODES, bounded


def test_further_error_codes_become_one() -> None:
    known = [f"failed/CODE_{number}" for number in range(MOST_CODES - 1)]
    found = bounded({"failed/NEW_A": 1, "failed/NEW_B": 2, "timed_out/NEW_C": 3, known[0]: 4}, known)
    assert found == {known[0]: 4, "failed/NEW_A": 1, "failed/OTHER": 2, "timed_out/OTHER": 3}


def test_few_error_codes_stay() -> None:
    assert bounded({"failed/A": 1}, ()) == {"failed/A": 1}
