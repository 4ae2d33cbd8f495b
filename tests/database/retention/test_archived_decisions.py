"""A run of an archive is decided again as it was, from its lines alone."""

from __future__ import annotations

from pathlib import Path

from support.inline_worker import InlineWorker
from support.run_driver import PERMANENT, RunDriver

from pipeweave.cli.support.recorded_files import runs_of
from pipeweave.orchestrator.domain.months import Month
from pipeweave.orchestrator.retention import archive_format
from pipeweave.spec import parse_spec
from pipeweave.testing.decision_changes import decided_again


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
    run_id = driver.trigger(input={"n": 3}, failure_mode="continue")
    worker.consume_all()
    path = tmp_path / "part.jsonl"
    month = Month.of(driver.run(run_id).created_at)
    path.write_bytes(b"".join(each.content for each in archive_format.lines(driver.database, month)))
    [record] = [each for each in runs_of([path]) if each.run["tenant"] == driver.tenant]
    same = decided_again(record, parse_spec(document))
    assert (same.changes, same.undecided) == ([], {})
    other = {**document, "steps": [steps[0], {**steps[1], "condition": "input.n > 2"}, *steps[2:]]}
    assert [each.said for each in decided_again(record, parse_spec(other)).changes] == [
        "was skipped, now runs"
    ]
