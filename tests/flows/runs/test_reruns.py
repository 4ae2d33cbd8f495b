"""Reruns with real workers: steps behind the chosen one run with the results of the run before."""

from __future__ import annotations

from support.live_stack import LiveStack

from pipeweave import ids
from pipeweave.orchestrator.runs import rerunning
from pipeweave.orchestrator.runs.rerunning import Edited, EditedParams, Rerun


def test_a_rerun_from_a_step_reads_the_outputs_of_the_run_before(stack: LiveStack) -> None:
    document = {
        "id": "sums",
        "steps": [
            {"id": "numbers", "task": "numbers", "params": {"count": 12}},
            {"id": "each", "task": "double", "needs": ["numbers"], "map": {"over": "${steps.numbers}"}},
            {"id": "sum", "task": "total", "needs": ["each"], "params": {"rows": "${steps.each}"}},
            {"id": "cause", "task": "cause", "needs": ["sum"]},
        ],
    }
    first = stack.ran(document)
    assert first.status == "completed"
    request = Rerun(first.id, "sum", by="ops")
    deployment, tenant = stack.deployment, stack.settings.tenant
    made = deployment.database.run(
        lambda tx: rerunning.rerun(tx, deployment.values, tenant, request), is_one=False
    )
    again = stack.finished(made.id)
    assert (again.status, made.reused) == ("completed", ("numbers", "each"))
    assert set(stack.called(again.id)) <= {"sum"}
    old, new = stack.steps(first.id), stack.steps(again.id)
    assert stack.output(new["sum"]) == stack.output(old["sum"])
    cause = {"kind": "rerun", "id": ids.show(ids.RUN, first.id), "actor": "ops"}
    assert stack.output(new["cause"]) == cause


def test_a_worker_calls_a_step_with_edited_params_and_the_edited_input(stack: LiveStack) -> None:
    document = {
        "id": "edited-sums",
        "steps": [
            {"id": "numbers", "task": "numbers", "params": {"count": "${input.count}"}},
            {"id": "sum", "task": "total", "needs": ["numbers"], "params": {"rows": "${steps.numbers}"}},
            {"id": "again", "task": "numbers", "needs": ["sum"], "params": {"count": "${input.count}"}},
        ],
    }
    first = stack.ran(document, {"count": 4})
    assert first.status == "completed"
    params = {"rows": [1, "${len(steps.numbers)}", "${input.count}"]}
    request = Rerun(first.id, "sum", Edited({"count": 2}), params=EditedParams(params))
    deployment, tenant = stack.deployment, stack.settings.tenant
    made = deployment.database.run(
        lambda tx: rerunning.rerun(tx, deployment.values, tenant, request), is_one=False
    )
    again = stack.finished(made.id)
    assert (again.status, made.reused, sorted(made.edits.seen)) == ("completed", ("numbers",), ["numbers"])
    steps = stack.steps(again.id)
    assert len(stack.output(steps["numbers"])) == 4, "it has kept its result"
    assert stack.output(steps["sum"]) == 1 + 4 + 2
    assert len(stack.output(steps["again"])) == 2
