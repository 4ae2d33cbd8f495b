"""Steps that compute the labels which they require, from what earlier steps returned."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from support.factories import a_task, register
from support.failed_runs import letters, retry
from support.inline_worker import InlineWorker
from support.run_driver import PERMANENT, RunDriver

from pipeweave.errors import InvalidSpec
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.domain.outbox import JoinCheck
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.runs.triggering import StartRequest
from pipeweave.spec.document import parse_spec

HOST = {"host": "${steps.load.host}"}
LOADED = {"host": "node-7", "slot": 3}


@pytest.fixture
def driver(isolated_driver: RunDriver) -> RunDriver:
    with isolated_driver.database.transaction() as tx:
        register(tx, isolated_driver.tenant, a_task("render", requires={"gpu": "a100"}), "noop")
    return isolated_driver


def begin(driver: RunDriver, *steps: dict[str, Any], **options: Any) -> UUID:
    """A run whose first step is `load`."""
    document = {"id": "driven", "steps": [{"id": "load", "task": "noop"}, *steps]}
    with driver.database.transaction() as tx:
        pipelines.store(tx, driver.tenant, parse_spec(document), source="api")
        request = StartRequest("driven", {"zone": "eu"}, **options)
        return triggering.trigger(tx, driver.values, driver.tenant, request).id


def place(driver: RunDriver, run_id: UUID, step: str = "use") -> tuple[str, str]:
    """The status and the queue of a step."""
    base = queue_names.service_queue(driver.tenant, "python")
    [row] = [each for each in driver.task_runs(run_id) if each.step_id == step and each.kind != "item"]
    return row.status, row.queue.removeprefix(base)


def test_a_step_goes_where_an_earlier_step_was(driver: RunDriver) -> None:
    run_id = begin(driver, {"id": "use", "task": "render", "requires": HOST}, queue="big")
    assert place(driver, run_id) == ("pending", "/big+gpu=a100")
    driver.sent.clear()
    driver.finish(run_id, "load", output=LOADED)
    assert place(driver, run_id) == ("queued", "/big+gpu=a100+host=node-7")
    assert [each.queue.rpartition("+")[2] for each in driver.sent if hasattr(each, "queue")] == [
        "host=node-7"
    ]


def test_labels_are_computed_from_numbers_texts_and_the_input_beside_what_is_known(driver: RunDriver) -> None:
    requires = {"slot": "${steps.load.slot}", "zone": "zone-${input.zone}", "arch": "arm"}
    run_id = begin(
        driver, {"id": "use", "task": "noop", "requires": requires}, requires={"arch": "x", "os": "l"}
    )
    assert place(driver, run_id) == ("pending", "+arch=arm+os=l")
    driver.finish(run_id, "load", output=LOADED)
    assert place(driver, run_id) == ("queued", "+arch=arm+os=l+slot=3+zone=zone-eu")


def test_the_first_step_of_a_run_may_compute_its_labels(driver: RunDriver) -> None:
    step = {"id": "use", "task": "noop", "needs": [], "requires": {"zone": "${input.zone}"}}
    assert place(driver, begin(driver, step)) == ("queued", "+zone=eu")


def test_the_items_of_a_map_require_what_the_map_computed(driver: RunDriver) -> None:
    step = {"id": "use", "task": "noop", "map": {"over": [1, 2]}, "requires": HOST}
    run_id = begin(driver, step)
    driver.finish(run_id, "load", output=LOADED)
    items = [each for each in driver.task_runs(run_id) if each.kind == "item"]
    assert [(each.status, each.requires) for each in items] == [("queued", {"host": "node-7"})] * 2
    assert all(each.queue.endswith("+host=node-7") for each in items)


def test_a_step_whose_condition_is_false_computes_nothing(driver: RunDriver) -> None:
    step = {"id": "use", "task": "noop", "requires": HOST, "condition": "steps.load.slot > 3"}
    run_id = begin(driver, step)
    driver.finish(run_id, "load", output={"slot": 3})
    assert place(driver, run_id)[0] == "skipped"


def test_a_step_whose_condition_is_true_requires_its_labels_as_well(driver: RunDriver) -> None:
    step = {"id": "use", "task": "noop", "requires": HOST, "condition": "steps.load.slot == 3"}
    run_id = begin(driver, step)
    driver.finish(run_id, "load", output=LOADED)
    assert place(driver, run_id) == ("queued", "+host=node-7")


@pytest.mark.parametrize("host", ["a b", "", None, True, ["x"], "x" * 64, "a+b=c"])
def test_what_is_no_label_fails_the_step_and_says_so(driver: RunDriver, host: Any) -> None:
    run_id = begin(driver, {"id": "use", "task": "noop", "requires": HOST})
    driver.finish(run_id, "load", output={"host": host})
    assert place(driver, run_id)[0] == "failed"
    [row] = [each for each in driver.task_runs(run_id) if each.step_id == "use"]
    assert row.error_code == "INVALID_LABELS" and "requires.host of step use is" in row.error["message"]


def test_a_value_that_is_not_there_fails_the_step(driver: RunDriver) -> None:
    run_id = begin(driver, {"id": "use", "task": "noop", "requires": HOST})
    driver.finish(run_id, "load", output={})
    assert {each.step_id: each.error_code for each in driver.task_runs(run_id)}["use"] == "INVALID_REFERENCE"


def test_a_retry_goes_to_the_same_host_again(driver: RunDriver) -> None:
    step = {"id": "use", "task": "noop", "requires": HOST, "retry": {"attempts": 1}}
    run_id = begin(driver, step)
    driver.finish(run_id, "load", output=LOADED)
    driver.finish(run_id, "use", failure=PERMANENT)
    retry(driver, letters(driver, run_id)[0])
    assert place(driver, run_id) == ("queued", "+host=node-7")


def test_only_what_is_there_before_the_step_can_be_named() -> None:
    def mistake(requires: dict[str, str], **more: Any) -> str:
        steps = [{"id": "load", "task": "t"}, {"id": "use", "task": "t", "requires": requires, **more}]
        with pytest.raises(InvalidSpec) as caught:
            parse_spec({"id": "p", "steps": steps})
        return str(caught.value.errors[0].field)

    field = "steps[1].requires.host"
    assert mistake({"host": "${steps.nobody.x}"}) == field
    assert mistake({"host": "${secret.key}"}) == field
    assert mistake({"host": "${item}"}, map={"over": [1]}) == field
    assert mistake({"host": "${steps.load"}) == field
    spec = parse_spec({"id": "p", "steps": [{"id": "load", "task": "t"}, {"task": "u", "requires": HOST}]})
    assert spec.steps[1].needs == ("load",) and parse_spec(spec.to_json()) == spec


def test_the_worker_of_the_step_before_does_not_go_on_with_it_unasked(driver: RunDriver) -> None:
    worker = InlineWorker(driver)
    run_id = begin(driver, {"id": "use", "task": "noop", "requires": {"after": "${steps.load.of}"}})
    worker.consume_one()
    assert place(driver, run_id) == ("queued", "+after=load")
    worker.consume_all()
    assert place(driver, run_id) == ("completed", "+after=load")
    assert driver.run(run_id).status == "completed"


def test_a_large_output_is_read_before_the_labels_are_computed(driver: RunDriver) -> None:
    run_id = begin(driver, {"id": "use", "task": "noop", "requires": HOST})
    driver.sent.clear()
    driver.finish(run_id, "load", output={**LOADED, "rows": ["x" * 1_000] * 1_000})
    assert place(driver, run_id) == ("pending", "")
    [check] = [each for each in driver.sent if isinstance(each, JoinCheck)]
    driver.check(run_id, check.join)
    assert place(driver, run_id) == ("queued", "+host=node-7")


def test_a_retry_of_what_came_to_no_label_computes_it_again(driver: RunDriver) -> None:
    run_id = begin(driver, {"id": "use", "task": "noop", "requires": HOST})
    driver.finish(run_id, "load", output={"host": "a b"})
    retry(driver, letters(driver, run_id)[0])
    [row] = [each for each in driver.task_runs(run_id) if each.step_id == "use"]
    assert (row.status, row.attempt, row.error_code) == ("failed", 2, "INVALID_LABELS")
    change = "UPDATE task_runs SET output = '{\"host\": \"node-8\"}' WHERE run_id = :id AND step_id = 'load'"
    with driver.database.transaction() as tx:
        tx.execute(change, {"id": run_id})
    retry(driver, letters(driver, run_id)[-1])
    assert place(driver, run_id) == ("queued", "+host=node-8")
