"""A report tells what a history, or open pages, change about each figure."""

from __future__ import annotations

import pytest

from benchmarks import report
from benchmarks.figures import Figures
from benchmarks.report import Again

ALONE = {
    "single_run": Figures("ms to completion, p50", {"ours": 8.0}),
    "fan_9": Figures("steps/s", {"ours": 500.0}),
}
BESIDE = {
    "single_run": Figures("ms to completion, p50", {"ours": 8.2}),
    "fan_9": Figures("steps/s", {"ours": 490.0}),
}


@pytest.mark.parametrize("what", ["history", "pages"])
def test_each_figure_is_told_without_and_with(what: str) -> None:
    again = Again(ALONE, BESIDE, what)
    header, single, fan = report.table(ALONE, again).splitlines()
    assert f"with {what}" in header
    assert single.split()[-4:] == ["8.00", "8.20", "1.02", "x"]
    assert fan.split()[-4:] == ["500", "490", "0.98", "x"]
    told = report.to_json(ALONE, again)
    assert told["fan_9"]["alone"]["ours"] == 500
    assert told["fan_9"][f"with_{what}"] == {"unit": "steps/s", "ours": 490.0, "ratio": 0.98}
