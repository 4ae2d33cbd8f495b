"""With a collector, a run is one trace, over the processes that work on it; without one, nothing is sent."""

from __future__ import annotations

from support.live_stack import LiveStack
from support.otlp_receiver import receiving

from pipeweave import ids

PIPELINE = {
    "id": "traced",
    "steps": [
        {"id": "first", "task": "span_of_call"},
        {"id": "second", "task": "span_of_async_call", "needs": ["first"]},
    ],
}


def test_a_run_is_one_trace_and_its_functions_are_in_it(empty_stack: LiveStack) -> None:
    with receiving() as collector:
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        empty_stack.start_beat(variables)
        empty_stack.start_worker("traced.py", concurrency=1, variables=variables)
        empty_stack.until(lambda: has_begun(empty_stack), "beat sends spans from now on")
        run = empty_stack.ran(PIPELINE)
        shown = ids.show(ids.RUN, run.id)
        empty_stack.until(lambda: len(collector.of_run(shown)) >= 3, "the spans arrive")
        spans = {each.attributes.get("stepId", "run"): each for each in collector.of_run(shown)}
        assert {each.service for each in spans.values()} == {"pipeweave"}
        assert {each.trace_id for each in spans.values()} == {run.id.hex}
        assert spans["run"].name == "orchestrator.run" and spans["run"].parent_id == ""
        outputs = {row.step_id: empty_stack.output(row) for row in empty_stack.task_runs(run.id)}
        for step in ("first", "second"):
            assert spans[step].name == "orchestrator.step"
            assert spans[step].parent_id == spans["run"].span_id
            assert spans[step].attributes["attempt"] == 1 and not spans[step].is_error
            assert outputs[step] == {"trace": run.id.hex, "span": spans[step].span_id}
        assert spans["first"].ended <= spans["second"].ended <= spans["run"].ended


def has_begun(stack: LiveStack) -> bool:
    """Whether beat has noted from where on it sends spans: a worker may be ready earlier."""
    with stack.deployment.database.reading() as tx:
        return bool(
            tx.execute("SELECT EXISTS (SELECT 1 FROM feed_consumers WHERE name = 'traces')").scalar_one()
        )
