"""Random pipelines that run each other, also after failures, end as `pipeweave.testing` lets them end."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from support.child_runs import children, task_run
from support.run_driver import RunDriver
from support.stored_values import VALUES
from support.trees import random_tree

from pipeweave.authoring import describe
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.kept import outputs
from pipeweave.orchestrator.kept.stored_values import Loading
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.waits.loading import look
from pipeweave.spec import parse_spec
from pipeweave.testing import RunResult, StepResult, run_pipeline

# A release tries far more of them.
TREES = int(os.environ.get("RANDOM_TREES", "40"))
_OPEN = """
SELECT w.run_id, w.task_run_id FROM waits AS w WHERE w.root_run_id = :root ORDER BY w.run_id, w.task_run_id
"""


@pytest.mark.parametrize("part", range(4))
def test_runs_inside_of_runs_end_as_in_a_test_of_users(database: Database, part: int) -> None:
    driver = RunDriver(database)
    for seed in range(part, TREES, 4):
        try:
            _tell(driver, seed)
        except BaseException:
            print(f"seed {seed}")
            raise


def _tell(driver: RunDriver, seed: int) -> None:
    documents = random_tree(random.Random(seed), f"tree-{seed}")
    for each in documents:
        with driver.database.transaction() as tx:
            pipelines.store(tx, driver.tenant, parse_spec(each), source="api")
    root = documents[-1]
    expected = run_pipeline(root, {"n": 1}, pipelines=documents[:-1])
    run_id = driver.trigger(root["id"], {"n": 1})
    while waiting := driver.rows(_OPEN, root=run_id):
        look(driver.database, VALUES, [(row.run_id, row.task_run_id) for row in waiting])
    _compare(driver, run_id, expected)


def _compare(driver: RunDriver, run_id: UUID, expected: RunResult) -> None:
    assert driver.run(run_id).status == expected.status
    for step_id, result in expected.steps.items():
        row = task_run(driver, run_id, step_id)
        if row.kind == "map" and row.error_code == "RUN_FAILED":
            # An item, or another step, has ended the run, and that has cancelled the map.
            assert result.status in ("failed", "cancelled")
            continue
        assert (step_id, row.status) == (step_id, result.status)
        # The output of a map is that of its items.
        if result.status == "completed" and row.kind != "map":
            assert row.output == result.output
        if (error := result.error or result.handled_error) is not None:
            assert row.error_code == describe(error).code
        _compare_runs(driver, row, result)
    ending = [each for each in children(driver, run_id) if each.parent_task_run_id == run_id]
    for child, inner in zip(ending, expected.ending.values(), strict=True):
        _compare(driver, child.id, inner)
    assert _output(driver, run_id) == expected.output
    with verify.snapshot(driver.database) as tx:
        assert verify.run(tx, run_id) == []


def _compare_runs(driver: RunDriver, row: Any, result: StepResult) -> None:
    """The runs of a step; of a map that failed, some were not needed any more."""
    if result.items:
        if result.status == "completed":
            rows = driver.task_runs(row.run_id)
            items = [each for each in rows if each.kind == "item" and each.step_id == row.step_id]
            items.sort(key=lambda each: each.map_index)
            for item, expected in zip(items, result.items, strict=True):
                _compare_runs(driver, item, expected)
        if result.handler is not None:
            _compare_children(driver, row, [result.handler])
        return
    _compare_children(driver, row, [*result.runs, *([result.handler] if result.handler else [])])


def _output(driver: RunDriver, run_id: UUID) -> Any:
    with verify.snapshot(driver.database) as tx:
        return outputs.of_run(tx, driver.tenant, driver.run(run_id), Loading(False))["output"]


def _compare_children(driver: RunDriver, row: Any, expected: Sequence[RunResult]) -> None:
    ran = [each for each in children(driver, row.run_id) if each.parent_task_run_id == row.id]
    for child, inner in zip(ran, expected, strict=True):
        _compare(driver, child.id, inner)
