"""docs/flows.md: its documents are right, and mean what the page says."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.pages import ROOT, blocks, text_of

import pipeweave
from pipeweave.size_limits import MAX_STEPS
from pipeweave.spec import PipelineSpec, StepRetry, dry_run, parse_spec
from pipeweave.spec.child_steps import MAX_DEPTH, MAX_ROUNDS
from pipeweave.spec.document_engine_steps import MAX_CASES, MAX_FAILURES
from pipeweave.spec.document_steps import ADAPTER_TIMEOUT_MS
from pipeweave.spec.expressions.bounds import MAX_CHARS
from pipeweave.spec.joins import MAX_EARLY_PREDECESSORS
from pipeweave.testing import run_pipeline

DOCUMENTS: dict[str, Any] = {
    each["id"]: each for each in map(yaml.safe_load, blocks(ROOT / "docs/flows.md", "yaml"))
}


def read(id: str) -> PipelineSpec:
    return parse_spec(DOCUMENTS[id])


@pytest.mark.parametrize("id", DOCUMENTS)
def test_every_document_is_right_and_its_normal_form_parses_to_itself(id: str) -> None:
    spec = read(id)
    assert parse_spec(spec.to_json()) == spec
    assert not dry_run(spec).warnings


def test_what_the_page_says_of_edges_is_so() -> None:
    needs = {each.id: set(each.needs) for each in read("payment").steps}
    assert needs["book"] == {"method", "capture", "write", "refuse"}
    assert needs["capture"] == {"authorise"}
    assert {each.id: set(each.needs) for each in read("quotes").steps}["close"] == {"north", "south", "west"}


def test_the_pipeline_in_python_runs_as_the_test_on_the_other_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "\n\n".join(blocks(ROOT / "docs/flows.md", "python"))
    [test] = [each for each in blocks(ROOT / "docs/tasks-and-pipelines.md", "python") if "sell, " in each]
    (tmp_path / "flows_page.py").write_text(program)
    monkeypatch.syspath_prepend(tmp_path)
    page = importlib.import_module("flows_page")
    sell = page.sell
    names: dict[str, Any] = {"run_pipeline": run_pipeline, "sell": sell}
    exec(compile(test, "docs/tasks-and-pipelines.md", "exec", dont_inherit=True), names)
    names["test_a_large_order_is_sold_if_finance_says_so"]()
    assert run_pipeline(sell, {"order": {"id": "o-1", "total": 5000}}).output["receipt"] is None
    yes = {"approved": True, "form": {"reason": "it is right"}}
    parcels = {"order": {"id": "o-1"}, "parcels": [{"kg": 1}, {"kg": 2}]}
    sent = run_pipeline(page.send_all, parcels, approvals={"ask_for_review.approval": [False, yes]})
    assert (sent.status, len(sent.steps["one_parcel"].items)) == ("completed", 2)
    parcels = {"order": {"id": "o-1"}, "parcels": [{"value": 1}, {"value": 200}]}
    parts = run_pipeline(page.send_in_parts, parcels, approvals={"ask.approval": [False, True]})
    assert (parts.status, parts.output["approved"]) == ("completed", True)


def test_every_name_in_the_table_of_python_is_one_of_ours() -> None:
    table = text_of("docs/flows.md").partition("| Python | document |")[2].partition("\n\n")[0]
    named = {"when", "otherwise", "either", "settle", "transform", "sleep", "sleep_until"}
    named |= {"wait_for_signal", "approval", "loop"}
    assert named | {"body"} <= set(pipeweave.__all__)
    assert named == {each for each in named if f"{each}(" in table}
    assert "`@body`" in table


def test_the_gather_of_a_block_is_called_as_the_page_says() -> None:
    assert "everywhere" in read("publish").by_id
    assert "gather" in read("process-order").by_id


def test_the_defaults_and_limits_on_the_page_are_those_of_the_code() -> None:
    page = " ".join(text_of("docs/flows.md").split())
    retry = StepRetry()
    assert f"`attempts` ({retry.attempts}, the first included)" in page
    assert f"`delayMs` ({retry.delay_ms}), `maxDelayMs` ({retry.max_delay_ms})" in page
    assert f"`multiplier` ({retry.multiplier}), `jitter` ({retry.jitter})" in page
    assert f"for {ADAPTER_TIMEOUT_MS // 1000} s at most" in page
    limits = page[page.index("## Limits") :]
    numbers = [int(each.replace(",", "")) for each in re.findall(r"\d[\d,]*", limits)]
    assert numbers[:6] == [MAX_STEPS, MAX_CASES, MAX_FAILURES, 100, MAX_EARLY_PREDECESSORS, MAX_CHARS]
    assert numbers[6:8] == [MAX_DEPTH, MAX_ROUNDS]
