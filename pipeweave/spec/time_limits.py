"""Find the steps whose task may take longer than their whole run. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pipeweave.durations import in_words
from pipeweave.spec.graph_error import GraphError
from pipeweave.spec.pipeline_spec import PipelineSpec

# The time limit of a task whose author named none (s): it says nothing about how long the task takes.
DEFAULT_TASK_S = 300.0


def beyond_run(
    spec: PipelineSpec, task_seconds: Mapping[str, float], deployment_ms: int | None
) -> Iterator[GraphError]:
    """Warn of each step whose attempts may take longer than the run itself (code TIMEOUT_BEYOND_RUN).

    This is no error, because an attempt may end sooner than its limit.

    Args:
        spec: a pipeline.
        task_seconds: the time limit of an attempt by task id (s).
        deployment_ms: the time limit of runs whose pipeline names none (ms); None for no limit.
    """
    limit = spec.timeout_ms or deployment_ms
    if limit is None:
        return
    source = "the pipeline's timeout" if spec.timeout_ms else "MAX_EXECUTION_TIMEOUT"
    for step in spec.steps:
        if not step.has_task:
            continue
        of_task = task_seconds.get(step.task, 0.0) * 1000
        is_named = step.timeout_ms is not None or of_task != DEFAULT_TASK_S * 1000
        longest = step.timeout_ms or of_task
        if longest > limit and is_named:
            whose = f"timeout of task {step.task!r}" if step.timeout_ms is None else "its timeout"
            yield GraphError(
                "TIMEOUT_BEYOND_RUN",
                f"an attempt of step {step.id!r} may take {in_words(longest)} ({whose}), "
                f"but the run ends after {in_words(limit)} ({source})",
                (step.id,),
            )
