"""Steps whose task may take longer than their run."""

from __future__ import annotations

from pipeweave.spec import PipelineSpec, StepSpec
from pipeweave.spec.time_limits import beyond_run

STEPS = (StepSpec("short", "quick"), StepSpec("long", "train"), StepSpec("plain", "default"))
SECONDS = {"quick": 10.0, "train": 3600.0, "default": 300.0}


def test_an_attempt_that_may_outlast_the_pipeline_s_timeout_is_warned_of() -> None:
    [warning] = beyond_run(PipelineSpec("p", STEPS, timeout_ms=60_000), SECONDS, None)
    assert (warning.code, warning.steps) == ("TIMEOUT_BEYOND_RUN", ("long",))
    assert warning.message == (
        "an attempt of step 'long' may take 1 hour (timeout of task 'train'), "
        "but the run ends after 1 minute (the pipeline's timeout)"
    )


def test_the_deployment_s_limit_counts_where_the_pipeline_names_none() -> None:
    [warning] = beyond_run(PipelineSpec("p", STEPS), SECONDS, 600_000)
    assert warning.message.endswith("but the run ends after 10 minutes (MAX_EXECUTION_TIMEOUT)")
    assert not list(beyond_run(PipelineSpec("p", STEPS, timeout_ms=7_200_000), SECONDS, 600_000))


def test_without_a_limit_nothing_is_warned_of() -> None:
    assert not list(beyond_run(PipelineSpec("p", STEPS), SECONDS, None))
