"""On a machine that can confine no process, what takes a box is skipped and says why."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.boxing import skip_without_boxes

TESTS = Path(__file__).resolve().parents[2]
# How a test comes to a box.
_WAYS = ("import boxes_of", "boxed_code.", '"boxed.py"')


def test_a_test_that_takes_a_box_is_skipped_with_the_reason_that_the_product_gives() -> None:
    with pytest.raises(pytest.skip.Exception, match="confined here: Landlock is missing"):
        skip_without_boxes(lambda: "Landlock is missing")
    skip_without_boxes(lambda: None)


def test_each_file_that_takes_boxes_asks_for_a_machine_that_has_them() -> None:
    sources = {each: each.read_text() for each in TESTS.rglob("test_*.py") if each != Path(__file__)}
    taking = {path for path, source in sources.items() if any(way in source for way in _WAYS)}
    assert len(taking) >= 4
    assert [str(each) for each in sorted(taking) if '"machine_with_boxes"' not in sources[each]] == []
