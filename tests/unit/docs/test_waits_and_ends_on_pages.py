"""The recipe of docs/waits.md, and the examples of endings on other pages, run as the pages say."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.pages import ROOT, blocks, section

from pipeweave import TaskError
from pipeweave.schema import TYPES
from pipeweave.testing import run_pipeline

DOCUMENTS: dict[str, Any] = {
    each["id"]: each
    for page in ("docs/waits.md", "docs/flows.md")
    for each in map(yaml.safe_load, blocks(ROOT / page, "yaml"))
}


def nothing(**params: Any) -> None:
    """A task that is not looked at."""


def reminded(signals: Any) -> tuple[list[int], str, Any]:
    """The days on which the warehouse was reminded, how the loop ended, and what it gave."""
    days: list[int] = []

    def remind(order: str, day: int) -> None:
        days.append(day)

    tasks = {"remind_warehouse": remind, "tell_customer": nothing}
    result = run_pipeline(DOCUMENTS["parcel-watch"], {"order": "o-1"}, tasks=tasks, signals=signals)
    assert result.status == "completed"
    assert (result.steps["give_up"].attempts == 1) is (result.steps["watch"].status == "failed")
    return days, result.steps["watch"].status, result.steps["watch"].output


def test_the_recipe_reminds_every_day_and_ends_with_the_signal_or_after_a_week() -> None:
    assert reminded(None)[:2] == ([1, 2, 3, 4, 5, 6, 7], "failed")
    days, status, output = reminded({"shipped": {"by": "bike"}})
    assert (days, status, output["payload"]) == ([], "completed", {"by": "bike"})


@pytest.mark.parametrize(("failing", "released"), [("charge_card", True), ("send_parcel", False)])
def test_a_condition_in_a_compensation_says_which_failure_takes_a_step_back(
    failing: str, released: bool
) -> None:
    calls: list[str] = []

    def fail() -> None:
        raise TaskError("it broke", code="BOOM", retryable=False)

    tasks: dict[str, Any] = dict.fromkeys(("reserve_stock", "charge_card", "send_parcel"), nothing)
    tasks |= {failing: fail, "release_stock": lambda stock: calls.append("released")}
    result = run_pipeline(DOCUMENTS["sale"], {}, tasks=tasks)
    assert (result.status, calls) == ("failed", ["released"] if released else [])


def test_the_test_of_a_failing_task_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = "\n\n".join(blocks(ROOT / "docs/flows.md", "python"))
    (tmp_path / "flows_page_of_ends.py").write_text(program)
    monkeypatch.syspath_prepend(tmp_path)
    page = importlib.import_module("flows_page_of_ends")
    every = blocks(ROOT / "docs/tasks-and-pipelines.md", "python")
    [test] = [each for each in every if "sell_at_once" in each]
    names = {"run_pipeline": run_pipeline, "sell_at_once": page.sell_at_once, "TaskError": TaskError}
    exec(compile(test, "docs/tasks-and-pipelines.md", "exec", dont_inherit=True), names)
    names["test_stock_is_released_if_the_card_is_refused"]()


def test_the_page_lists_all_types_of_fields() -> None:
    listed = section("docs/tasks-and-pipelines.md", "Fields").partition("It may have")[0]
    assert set(TYPES) == {each for each in TYPES if f"`{each}`" in listed}
