"""What the examples do when something goes wrong; tests/flows/stacks tries them as a user would."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

from support.pages import ROOT
from support.stubbed_runs import StubbedRuns

from pipeweave.authoring.task import collect


def functions_of(path: str) -> dict[str, Callable[..., Any]]:
    """The functions of the tasks in an example."""
    spec = importlib.util.spec_from_file_location("example_of_a_test", ROOT / "examples" / path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {id: task.fn for id, task in collect(module).items()}


def test_what_was_reserved_is_given_back_when_the_card_is_refused(runs: StubbedRuns) -> None:
    runs.serve(**functions_of("order_with_approval/shop.py"))
    runs.put((ROOT / "examples/order_with_approval/process-order.yaml").read_text())
    run_id = runs.begin("process-order", {"order": {"id": "o-9", "total": 20, "card": "stolen"}})
    assert runs.outcome(run_id)[0] == "failed"
    assert runs.failure(run_id, "charge") == ("CARD_REFUSED", "the card was refused")
    assert runs.calls("release_stock") == [{"reservation": "r-o-9"}]
