"""Reruns from a step with another input, or with other params of that step: for the new run alone."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from support.child_runs import child, only_child
from support.concurrency import call_concurrently
from support.factories import a_task, register
from support.failed_runs import CHAIN, called, differences, letters, retry
from support.inline_worker import InlineWorker, failing
from support.run_driver import RunDriver

from pipeweave import ids
from pipeweave.errors import InvalidInput
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.diagnosis import why, why_run
from pipeweave.orchestrator.diagnosis.rebuilding import rebuilt_at
from pipeweave.orchestrator.kept.given_hashes import GivenHashes
from pipeweave.orchestrator.messaging.celery_app import LEVELS
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.runs import rerunning
from pipeweave.orchestrator.runs.rerunning import LATEST, CreatedRerun, Edited, EditedParams, Rerun
from pipeweave.orchestrator.state import run_headers
from pipeweave.orchestrator.store.database import Database
from pipeweave.spec import StepSpec, Transform, engine_task

LOAD = StepSpec("load", "noop", params={"path": "${input.path}"})
CHARGE = StepSpec("charge", "charge", ("load",), {"amount": "${steps.load.of}", "note": "old"})
SEND = StepSpec("send", "noop", ("charge",), {"to": "${input.to}"})
PARAMETERS = {
    "fields": [
        {"name": "amount", "label": "Amount", "type": "json", "required": True},
        {"name": "note", "label": "Note", "type": "string"},
    ],
    "strict": True,
}
# As if every message were still there.
FULL = dict.fromkeys(LEVELS, 0.0)
NEW = {"amount": 5, "note": "new ${steps.load.of}"}


@pytest.fixture
def worker(database: Database) -> InlineWorker:
    """Of a tenant with a pipeline of three steps, of which the second takes strict params."""
    driver = RunDriver(database)
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, a_task("charge", parameters=PARAMETERS), id="payments")
    driver.store_steps(LOAD, CHARGE, SEND)
    return InlineWorker(driver)


def ended(worker: InlineWorker, input: Any = None, *failing_steps: str) -> UUID:
    worker.fails = failing(*failing_steps)
    run_id = worker.driver.trigger(input=input or {"path": "a", "to": "me"})
    worker.consume_all()
    worker.calls.clear()
    worker.fails = {}
    return run_id


def rerun(driver: RunDriver, run_id: UUID, step: str | None = None, **options: Any) -> CreatedRerun:
    if "params" in options:
        options["params"] = EditedParams(options["params"])
    if "input" in options:
        options["edited"] = Edited(options.pop("input"))
    request = Rerun(run_id, step, **options)
    return driver.database.run(
        lambda tx: rerunning.rerun(tx, driver.values, driver.tenant, request), is_one=False
    )


def ran_again(worker: InlineWorker, run_id: UUID, step: str | None = None, **options: Any) -> CreatedRerun:
    worker.calls.clear()
    made = rerun(worker.driver, run_id, step, **options)
    worker.consume_all()
    assert worker.driver.run(made.id).status == "completed"
    assert differences(worker.driver, made.id) == []
    return made


def params_of(driver: RunDriver, run_id: UUID, step: str) -> Any:
    """The params of a step as a process sees them that reads the run now."""
    with driver.database.transaction() as tx:
        statement = f"SELECT {run_headers.COLUMNS} FROM runs AS r WHERE r.id = :run_id"
        run = run_headers.of_row(tx, tx.execute(statement, {"run_id": run_id}).one())
    return run.plan[run.plan.ordinals[step]].step.params


# --- another input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("begin", ["load", "charge", "send"])
def test_another_input_goes_with_any_step(worker: InlineWorker, begin: str) -> None:
    driver = worker.driver
    first = ended(worker)
    other = {"path": "b", "to": "you"}
    made = ran_again(worker, first, begin, input=other)
    behind = {"load": 3, "charge": 2, "send": 1}[begin]
    assert (driver.run(made.id).input, sum(called(worker).values())) == (other, behind)
    # `charge` reads what `load` has made of the input, not the input itself.
    assert sorted(made.edits.seen) == ([] if begin == "load" else ["load"])


def test_a_run_shows_which_reused_steps_have_read_another_input(worker: InlineWorker) -> None:
    driver = worker.driver
    first = ended(worker)
    made = ran_again(worker, first, "charge", input={"path": "b", "to": "you"})
    [created] = driver.events(made.id, "run.created")
    assert created.data["otherInput"] == ["load"]
    load, send = (ids.task_run_id(made.id, each) for each in (1, 3))
    with driver.database.reading() as tx:
        shown = reading.run(tx, driver.tenant, made.id)["edits"]
        assert shown == {"params": {}, "otherInput": ["load"]}
        assert reading.run_state(tx, driver.tenant, made.id)["edits"] == shown
        assert reading.task_run(tx, driver.tenant, load)["hasOtherInput"] is True
        assert reading.task_run(tx, driver.tenant, send)["hasOtherInput"] is False
        assert rebuilt_at(tx, driver.tenant, made.id, 10**9)["otherInput"] == ["load"]


def test_what_a_reused_step_was_given_keeps_its_hash(worker: InlineWorker) -> None:
    driver = worker.driver
    first = ended(worker)
    made = ran_again(worker, first, "charge", input={"path": "b", "to": "you"})

    def hashes_of(run_id: UUID) -> dict[str, str | None]:
        with driver.database.transaction() as tx:
            spec = pipelines.get(tx, driver.tenant, "driven").spec
        hashes = GivenHashes.of_run(driver.run(run_id), spec)
        return {step: hashes.of(step, "task", {}) for step in ("load", "send")}

    before, after = hashes_of(first), hashes_of(made.id)
    assert before["load"] == after["load"]
    assert before["send"] != after["send"]


def test_a_rerun_of_a_rerun_knows_the_input_that_each_step_has_read(worker: InlineWorker) -> None:
    driver = worker.driver
    old, other = {"path": "a", "to": "me"}, {"path": "b", "to": "you"}
    first = ended(worker, old)
    second = ran_again(worker, first, "charge", input=other)
    third = ran_again(worker, second.id, "send")
    assert (third.reused, sorted(third.edits.seen)) == (("load", "charge"), ["load"])
    assert third.edits.seen == {"load": driver.run(first).inputs_hash}
    # Back to the input that it has read: nothing differs any more.
    fourth = ran_again(worker, third.id, "send", input=old)
    assert (fourth.reused, fourth.edits.seen) == (("load", "charge"), {})


# --- other params -----------------------------------------------------------------------------------------


def test_other_params_hold_for_the_new_run_alone(worker: InlineWorker) -> None:
    driver = worker.driver
    first = ended(worker, None, "charge")
    assert driver.run(first).status == "failed"
    made = ran_again(worker, first, "charge", params=NEW)
    assert called(worker) == {"charge": 1, "send": 1}
    assert params_of(driver, made.id, "charge") == NEW
    assert params_of(driver, made.id, "send") == SEND.params
    assert params_of(driver, first, "charge") == CHARGE.params
    assert (driver.run(made.id).pipeline_version, made.edits.params) == (1, {"charge": NEW})
    latest = "SELECT latest_version FROM pipelines WHERE tenant_id = :tenant AND id = 'driven'"
    assert driver.rows(latest, tenant=driver.tenant)[0].latest_version == 1
    assert params_of(driver, driver.trigger(input={"path": "a", "to": "me"}), "charge") == CHARGE.params


def test_other_params_are_shown_wherever_the_run_is(worker: InlineWorker) -> None:
    driver = worker.driver
    first = ended(worker, None, "charge")
    made = rerun(driver, first, "charge", params=NEW)
    charge, send = (ids.task_run_id(made.id, each) for each in (2, 3))
    [created] = driver.events(made.id, "run.created")
    assert created.data["editedParams"] == ["charge"]
    with driver.database.reading() as tx:
        shown = {"params": {"charge": NEW}, "otherInput": []}
        assert reading.run(tx, driver.tenant, made.id)["edits"] == shown
        assert reading.run_state(tx, driver.tenant, made.id)["edits"] == shown
        one, other = (reading.task_run(tx, driver.tenant, each) for each in (charge, send))
        assert (one["params"], one["isEdited"]) == (NEW, True)
        assert (other["params"], other["isEdited"]) == (SEND.params, False)
        assert why.why(tx, driver.tenant, charge, lambda _: FULL)["isEdited"] is True
        assert why.why(tx, driver.tenant, send, lambda _: FULL)["isEdited"] is False
        assert why_run.why_run(tx, driver.tenant, made.id, lambda _: FULL)["editedParams"] == ["charge"]
        assert rebuilt_at(tx, driver.tenant, made.id, 10**9)["editedParams"] == ["charge"]
    with driver.database.reading() as tx:
        compared = reading.compare_runs(tx, driver.tenant, first, made.id)
        assert compared["version"]["changed"] == ["charge"]


def test_verify_notices_edits_that_no_event_tells_of(worker: InlineWorker) -> None:
    driver = worker.driver
    made = ran_again(worker, ended(worker), "charge", params=NEW)
    driver.rows("UPDATE runs SET edits = NULL WHERE id = :id RETURNING 1", id=made.id)
    [difference] = differences(driver, made.id)
    assert (difference.field, difference.stored, difference.rebuilt) == ("edited_params", (), ("charge",))


def test_a_rerun_of_a_rerun_has_its_params_until_others_are_named(worker: InlineWorker) -> None:
    driver = worker.driver
    made = ran_again(worker, ended(worker), "charge", params=NEW)
    for begin in (None, "charge", "send"):
        assert ran_again(worker, made.id, begin).edits.params == {"charge": NEW}
    both = ran_again(worker, made.id, "send", params={"to": "all"})
    assert both.edits.params == {"charge": NEW, "send": {"to": "all"}}
    assert ran_again(worker, both.id, "charge", params=None).edits.params == {"send": {"to": "all"}}
    # Those of the version are no edit.
    same = ran_again(worker, both.id, "charge", params=dict(CHARGE.params or {}))
    assert same.edits.params == {"send": {"to": "all"}}
    assert params_of(driver, same.id, "charge") == CHARGE.params


def test_another_version_keeps_the_edits_of_steps_that_it_has_not_changed(worker: InlineWorker) -> None:
    driver = worker.driver
    made = ran_again(worker, ended(worker), "charge", params=NEW)
    driver.store_steps(LOAD, CHARGE, SEND, StepSpec("log", "noop", ("send",)))
    kept = ran_again(worker, made.id, "send", version=LATEST)
    assert (kept.version, kept.reused, kept.edits.params) == (2, ("load", "charge"), {"charge": NEW})
    driver.store_steps(LOAD, StepSpec("charge", "charge", ("load",), {"amount": 1}), SEND)
    anew = ran_again(worker, made.id, "charge", version=LATEST)
    assert (anew.version, anew.edits.params) == (3, {})


def test_a_dead_letter_of_such_a_run_is_retried_with_its_params(worker: InlineWorker) -> None:
    driver = worker.driver
    first = ended(worker)
    worker.fails = failing("charge")
    made = rerun(driver, first, "charge", params=NEW)
    worker.consume_all()
    assert driver.run(made.id).status == "failed"
    [letter] = letters(driver, made.id)
    worker.fails = {}
    retry(driver, letter)
    worker.consume_all()
    assert driver.run(made.id).status == "completed"
    assert params_of(driver, made.id, "charge") == NEW
    assert differences(driver, made.id) == []


def test_a_child_has_the_edited_params_of_its_step_as_its_input(worker: InlineWorker) -> None:
    driver = worker.driver
    driver.store_steps(StepSpec("work", "noop"), id="inner")
    driver.store_steps(LOAD, child("call", "inner", ("load",), params={"n": 1}), id="outer")
    first = driver.trigger("outer", {"path": "a"})
    worker.consume_all()
    assert driver.run(only_child(driver, first)).input == {"n": 1}
    made = ran_again(worker, first, "call", params={"n": "${steps.load.of}"})
    assert driver.run(only_child(driver, made.id)).input == {"n": "load"}


def test_edited_params_of_a_child_are_compared_with_its_pipeline(worker: InlineWorker) -> None:
    driver = worker.driver
    schema = {"fields": [{"name": "n", "label": "N", "type": "number", "required": True}], "strict": True}
    driver.store_steps(StepSpec("only", "noop"), id="inner", input_schema=schema)
    driver.store_steps(child("inner", "inner", params={"n": 1}), id="outer")
    first = driver.trigger("outer")
    worker.consume_all()
    for params, field in (({"n": 1, "m": 2}, "params.m"), ({"n": "x"}, "params.n"), ({}, "params")):
        with pytest.raises(InvalidInput) as refused:
            rerun(driver, first, "inner", params=params)
        assert [each.field for each in refused.value.errors] == [field]


def test_every_item_of_a_map_has_the_edited_params(worker: InlineWorker) -> None:
    driver = worker.driver
    driver.store({"m": []}, id="mapped", maps={"m": "${input}"})
    first = driver.trigger("mapped", [1, 2])
    worker.consume_all()
    made = ran_again(worker, first, "m", params={"at": "${mapIndex}"})
    assert called(worker) == {"m": 2}
    assert params_of(driver, made.id, "m") == {"at": "${mapIndex}"}


@pytest.mark.parametrize(
    ("step", "params", "field"),
    [
        (None, {"amount": 1}, "fromStep"),
        ("charge", {"amount": 1, "colour": "red"}, "params.colour"),
        ("charge", {"note": "x"}, "params"),
        ("charge", {"amount": 1, "note": 5}, "params.note"),
        ("charge", {"amount": "${steps.send.of}"}, "params.amount"),
        ("charge", {"amount": "${1 +}"}, "params.amount"),
        ("elsewhere", {"amount": 1}, "fromStep"),
    ],
)
def test_wrong_params_are_refused_with_their_field(
    worker: InlineWorker, step: str | None, params: Any, field: str
) -> None:
    driver = worker.driver
    first = ended(worker)
    before = driver.rows("SELECT count(*) FROM runs WHERE tenant_id = :t", t=driver.tenant)
    with pytest.raises(InvalidInput) as refused:
        rerun(driver, first, step, params=params)
    assert [each.field for each in refused.value.errors] == [field]
    assert driver.rows("SELECT count(*) FROM runs WHERE tenant_id = :t", t=driver.tenant) == before


def test_what_the_engine_decides_has_no_params(worker: InlineWorker) -> None:
    driver = worker.driver
    sums = Transform({"n": 1})
    driver.store_steps(StepSpec("sum", engine_task(sums), decides=sums), id="sums")
    first = driver.trigger("sums")
    with pytest.raises(InvalidInput, match="runs no task and no pipeline"):
        rerun(driver, first, "sum", params={"n": 2})


def test_a_token_names_the_params_too(worker: InlineWorker) -> None:
    driver = worker.driver
    first = ended(worker)
    calls = call_concurrently(*[lambda: rerun(driver, first, "charge", params=NEW, run_token="t")] * 3)
    made = [each.result for each in calls]
    assert len({each.id for each in made}) == 1
    assert sorted(each.created for each in made) == [False, False, True]
    assert all(each.edits.params == {"charge": NEW} for each in made)
    assert rerun(driver, first, "charge", run_token="t").id != made[0].id
    assert rerun(driver, first, "charge", params=None, run_token="t").id != made[0].id


def test_a_chain_without_edits_has_none(worker: InlineWorker) -> None:
    driver = worker.driver
    driver.store(CHAIN, id="plain")
    first = driver.trigger("plain", {"n": 1})
    worker.consume_all()
    made = ran_again(worker, first, "c")
    assert (driver.run(made.id).edits, made.edits.to_json()) == (None, None)
    with driver.database.reading() as tx:
        assert reading.run(tx, driver.tenant, made.id)["edits"] is None
