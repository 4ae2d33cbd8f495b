"""A run of an archive is decided again as it was, from its lines alone."""

from __future__ import annotations

from pathlib import Path

from support.history_generator import RandomHistory
from support.inline_worker import InlineWorker
from support.run_driver import PERMANENT, RunDriver

from pipeweave.cli.support.recorded_files import runs_of
from pipeweave.orchestrator.domain.months import Month
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.retention import archive_format
from pipeweave.spec import parse_spec
from pipeweave.testing.decision_changes import decided_again
from pipeweave.testing.recorded_run import RecordedRun

# Of random histories: one ends by its time limit, in one the task of a step is removed, one fails by a step.
SEEDS = (0, 5, 8)


def records(driver: RunDriver, path: Path) -> list[RecordedRun]:
    """The runs of a tenant as an archive of this month has them."""
    month = Month.of(driver.database.now())
    path.write_bytes(b"".join(each.content for each in archive_format.lines(driver.database, month)))
    return [each for each in runs_of([path]) if each.run["tenant"] == driver.tenant]


def test_any_run_that_has_ended_is_decided_as_it_was(isolated_driver: RunDriver, tmp_path: Path) -> None:
    driver = isolated_driver
    for seed in SEEDS:
        RandomHistory(driver, seed).go(150)
    compared = [each for each in records(driver, tmp_path / "part.jsonl") if each.why_not() is None]
    assert len(compared) >= 2
    for record in compared:
        with driver.database.transaction() as tx:
            spec = pipelines.get(tx, driver.tenant, record.run["pipelineId"]).spec
        assert decided_again(record, spec, spec).changes == []


def test_a_run_of_an_archive_is_decided_as_it_was_and_otherwise_where_its_definition_is(
    isolated_driver: RunDriver, tmp_path: Path
) -> None:
    driver = isolated_driver
    steps = [
        {"id": "a", "task": "noop"},
        {"id": "b", "task": "noop", "needs": ["a"], "condition": "input.n > 3"},
        {"id": "m", "task": "noop", "needs": ["a"], "map": {"over": [1, 2]}},
        {"id": "t", "transform": {"n": "${input.n}"}, "needs": ["b"]},
        {"id": "z", "task": "noop", "needs": ["t", "m"], "retry": {"attempts": 1}},
    ]
    document = {"id": "driven", "failureMode": "continue", "steps": steps}
    driver.store_steps(*parse_spec(document).steps)
    worker = InlineWorker(driver, fails={"z": PERMANENT})
    driver.trigger(input={"n": 3}, failure_mode="continue")
    worker.consume_all()
    [record] = records(driver, tmp_path / "part.jsonl")
    same = decided_again(record, parse_spec(document))
    assert (same.changes, same.undecided) == ([], {})
    other = {**document, "steps": [steps[0], {**steps[1], "condition": "input.n > 2"}, *steps[2:]]}
    assert [each.said for each in decided_again(record, parse_spec(other)).changes] == [
        "was skipped, now runs"
    ]
