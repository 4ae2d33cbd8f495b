"""Say what the output of a run is: one rule for the server and for `pipeweave.testing`. Pure.

A run has an output when it is `completed` or `partial`, and null before and otherwise. The output is the
spec's `output` with its references resolved. Without `output` it is the output of the one end step; if the
pipeline has several end steps, it is an object of their outputs by step id. A step that was skipped or failed
gives null, and so does a path that does not exist and an expression that cannot be evaluated: the run has
ended, nothing can fail any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pipeweave.errors import ExpressionFailed, InvalidReference
from pipeweave.spec.pipeline_spec import PipelineSpec
from pipeweave.spec.reference_syntax import references_in, show_path
from pipeweave.spec.references import compile_value, resolve

# The statuses of runs that have an output.
WITH_OUTPUT = frozenset({"completed", "partial"})

INPUT = "input"


def output_template(spec: PipelineSpec, ends: Sequence[str]) -> Any:
    """The JSON value with references that the output of the pipeline's runs is made of.

    Args:
        spec: the pipeline.
        ends: its steps without successors.
    """
    if spec.output is not None:
        return spec.output
    references = {end: show_path("steps", (end,)) for end in ends}
    return references[ends[0]] if len(ends) == 1 else references


def named_in(template: Any) -> tuple[Counter[str], int]:
    """How often a template refers to each step, and to the run's input."""
    references = compile_value(template).references
    steps = Counter(each.step for each in references if each.step is not None)
    return steps, sum(each.root == INPUT for each in references)


def run_output(
    template: Any,
    *,
    input: Any,
    steps: Mapping[str, Any],
    left_out: Collection[str] = (),
    has_input: bool = True,
) -> Any:
    """Resolve a template.

    Args:
        template: see `output_template`.
        input: the run's input.
        steps: output by step id, of the steps that completed.
        left_out: steps whose outputs are too large to be shown: what refers to them is null.
        has_input: False if the input is too large to be shown.
    """
    if isinstance(template, str):
        named = references_in(template)
        if any(each.step in left_out or (each.root == INPUT and not has_input) for each in named):
            return None
        try:
            return resolve(template, input=input, steps=steps)
        except (InvalidReference, ExpressionFailed):
            return None
    inner: dict[str, Any] = {"input": input, "steps": steps, "left_out": left_out, "has_input": has_input}
    if isinstance(template, Mapping):
        return {key: run_output(each, **inner) for key, each in template.items()}
    if isinstance(template, (list, tuple)):
        return [run_output(each, **inner) for each in template]
    return template
