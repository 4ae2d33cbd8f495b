"""Parse a pipeline document (from YAML or JSON) into a normalised spec, or list every mistake by field.

A step without `needs` follows the step before it; a step with `needs: []` starts at once. All members of a
`parallel:` block follow the step before the block and precede the step after it. A reference to a step makes
that step a predecessor. A normalised spec is a valid document, too: parsing it gives an equal spec.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pipeweave.errors import FieldError, InvalidSpec
from pipeweave.field_errors import MOST_ERRORS
from pipeweave.json_values import json_faults
from pipeweave.schema import run_input_errors, validate_schema
from pipeweave.size_limits import MAX_DESCRIPTION, MAX_SPEC_BYTES
from pipeweave.spec.declared_schedule import DeclaredSchedule, read_schedule
from pipeweave.spec.document_durations import read_duration, read_timeouts
from pipeweave.spec.document_expressions import ITEM_ROOTS, LOOP_ROOTS, step_of
from pipeweave.spec.document_graph import TooManyEdges
from pipeweave.spec.document_limits import read_concurrency, read_rate
from pipeweave.spec.document_rules import read_on_exhausted, renamed
from pipeweave.spec.document_steps import StepReader
from pipeweave.spec.document_waits import check_default
from pipeweave.spec.expressions import Path
from pipeweave.spec.graph import validate_graph
from pipeweave.spec.hooks import HOOK_NAMES, Hooks, read_hooks
from pipeweave.spec.pipeline_spec import PipelineSpec, StepSpec
from pipeweave.spec.reference_syntax import show_path
from pipeweave.spec.references import json_type
from pipeweave.spec.rules import ANY_CODE, CODES, FAIL_FAST, FAILURE_MODES
from pipeweave.spec.wait_steps import Approval

_PIPELINE_KEYS = (
    *("id", "description", "failureMode", "priority", "defaults", "steps", "code"),
    *("timeout", "timeoutMs", "idleTimeout", "idleTimeoutMs", "inputSchema", "output", "schedule"),
    *("variables", "onExhausted", "concurrency", "rateLimit", *HOOK_NAMES),
    *("errorHandlers", "finally", "finallyTimeout", "finallyTimeoutMs"),
)
# The same keys as another notation writes them.
_PIPELINE_NAMES = {
    "error_handlers": "errorHandlers",
    "finally_timeout": "finallyTimeout",
    "rate_limit": "rateLimit",
}
_MAX_VARIABLES = 100
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}\Z")
_SMALLEST_INT, _LARGEST_INT = -(2**31), 2**31 - 1
_DEEPEST_OUTPUT = 32  # with the values in it, an output must not be deeper than an answer can be
_DEEPEST = 72  # MAX_VALUE_DEPTH, plus the levels above steps[].parallel[].params


def parse_spec(
    document: Mapping[str, Any], *, id: str | None = None, is_stored: bool = False
) -> PipelineSpec:
    """Parse a document into a normalised spec.

    Args:
        document: an object with `steps` and the options of the pipeline.
        id: the pipeline's id, needed if the document has none; must equal the document's id if it has one.
        is_stored: it is that of a stored version: what its expressions name and compare, and what its
            approvals give by default, was checked when it was stored, by the rules of that time.

    Raises:
        InvalidSpec: with one FieldError for each mistake (`steps[2].needs[0]`); `graphErrors` in its
            context names the steps of each mistake in the graph.
    """
    reader = _DocumentReader()
    spec = reader.pipeline(document, id)
    if not is_stored:
        reader.check_expressions(spec)
        reader.check_defaults(spec)
    reader.refuse_if_wrong(document)
    faults = validate_graph(spec)
    if faults:
        raise InvalidSpec(
            faults[0].message,
            errors=[FieldError("steps", each.message, each.code.lower()) for each in faults[:MOST_ERRORS]],
            graphErrors=[each.to_json() for each in faults[:MOST_ERRORS]],
        )
    if len(spec.canonical) > MAX_SPEC_BYTES:
        size = f"comes to {len(spec.canonical)} bytes, at most {MAX_SPEC_BYTES} are allowed"
        raise InvalidSpec(f"the spec {size}", errors=[FieldError("", size, "too_large")])
    return spec


class _DocumentReader(StepReader):
    """Reads one document and collects its mistakes."""

    def refuse_if_wrong(self, document: Any) -> None:
        if self.errors:
            named = document.get("id") if isinstance(document, Mapping) else None
            subject = f"pipeline {named!r}" if isinstance(named, str) else "the pipeline"
            first = self.errors[0]
            # Only if every mistake is one in the graph: a client that reads graphErrors does not read errors.
            graph_errors = self.graph_errors if len(self.graph_errors) == len(self.errors) else []
            detail = f"{subject}: {first.field or 'the document'} {first.message}"
            refusal = InvalidSpec(detail, errors=self.errors[:MOST_ERRORS])
            if graph_errors:
                refusal.context["graphErrors"] = [each.to_json() for each in graph_errors[:MOST_ERRORS]]
            raise refusal

    def pipeline(self, document: Any, id: str | None) -> PipelineSpec:
        if not isinstance(document, Mapping):
            self.wrong(
                "", f"must be an object with `steps`, not {json_type(document)}", "invalid_type", "object"
            )
            self.refuse_if_wrong(document)
        self.errors += json_faults(document, budget=MAX_SPEC_BYTES, max_depth=_DEEPEST)
        self.refuse_if_wrong(document)
        document = renamed(self, document, _PIPELINE_NAMES, "")
        document, self.step_timeout_ms = read_timeouts(self, document)
        self.unknown_keys(document, _PIPELINE_KEYS, "")
        spec_id, steps = self.pipeline_id(document, id), self.all_steps(document)
        input_schema, variables = self.input_schema(document), self.variables(document.get("variables"))
        error_rules = self.calls.error_rules(document.get("errorHandlers"), "errorHandlers")
        self.calls.check_conditions(error_rules, variables)
        concurrency = read_concurrency(self, self.expressions, document.get("concurrency"))
        return PipelineSpec(
            variables=variables,
            error_rules=error_rules,
            finally_call=self.calls.at_the_end(document.get("finally"), "finally"),
            finally_timeout_ms=read_duration(self, document, "finallyTimeout"),
            id=spec_id,
            description=self.description(document),
            failure_mode=self.failure_mode(document),
            priority=self.priority(document),
            defaults=self.defaults(document),
            timeout_ms=read_duration(self, document, "timeout"),
            idle_timeout_ms=read_duration(self, document, "idleTimeout"),
            code=self.code(document),
            steps=steps,
            input_schema=input_schema,
            output=self.output(document.get("output"), steps),
            schedule=self.schedule(document.get("schedule"), input_schema),
            hooks=self.hooks(document, spec_id),
            on_exhausted=read_on_exhausted(self, document),
            concurrency=concurrency,
            rate_limit=read_rate(self, self.expressions, document.get("rateLimit"), concurrency),
        )

    def pipeline_id(self, document: Mapping[str, Any], id: str | None) -> str:
        named = document.get("id", id)
        if named is None:
            self.wrong("id", "is required", "missing")
            return ""
        if id is not None and named != id:
            self.wrong("id", f"is {named!r}, but the pipeline is called {id!r}", "mismatch")
        return self.name(named, "id")

    def description(self, document: Mapping[str, Any]) -> str | None:
        text = document.get("description")
        if text is not None and not isinstance(text, str):
            self.wrong("description", f"must be a text, not {json_type(text)}", "invalid_type", "string")
            return None
        if text is not None and len(text) > MAX_DESCRIPTION:
            self.wrong("description", f"is longer than {MAX_DESCRIPTION} characters", "too_long")
        return text

    def failure_mode(self, document: Mapping[str, Any]) -> str:
        mode = document.get("failureMode", FAIL_FAST)
        if not isinstance(mode, str) or mode not in FAILURE_MODES:
            allowed = ", ".join(FAILURE_MODES)
            self.wrong("failureMode", f"is {mode!r}: use one of {allowed}", "invalid_value", allowed)
            return FAIL_FAST
        return mode

    def code(self, document: Mapping[str, Any]) -> str:
        code = document.get("code") or ANY_CODE
        if code not in CODES:
            allowed = ", ".join(CODES)
            self.wrong("code", f"is {code!r}: use one of {allowed}"[:500], "invalid_value", allowed)
            return ANY_CODE
        return str(code)

    def priority(self, document: Mapping[str, Any]) -> int | None:
        priority = document.get("priority")
        if priority is None:
            return None
        if not isinstance(priority, int) or isinstance(priority, bool):
            self.wrong("priority", f"must be a whole number, not {priority!r}", "invalid_type", "integer")
            return None
        if not _SMALLEST_INT <= priority <= _LARGEST_INT:
            self.wrong("priority", f"must lie between {_SMALLEST_INT} and {_LARGEST_INT}", "out_of_range")
        return priority

    def defaults(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        defaults = document.get("defaults", {})
        if not isinstance(defaults, Mapping):
            self.wrong("defaults", f"must be an object, not {json_type(defaults)}", "invalid_type", "object")
            return {}
        return defaults

    def input_schema(self, document: Mapping[str, Any]) -> Mapping[str, Any] | None:
        schema = document.get("inputSchema")
        if schema is None:
            return None
        for fault in validate_schema(schema):
            path = f"inputSchema.{fault.field}" if fault.field else "inputSchema"
            self.wrong(path, fault.message, fault.code, fault.expected)
        return dict(schema) if isinstance(schema, Mapping) else None

    def hooks(self, document: Mapping[str, Any], pipeline_id: str) -> Hooks:
        hooks, errors = read_hooks(document, pipeline_id)
        self.errors += errors
        return hooks

    def schedule(self, entry: Any, input_schema: Mapping[str, Any] | None) -> DeclaredSchedule | None:
        """Read `schedule`; its runs get its input, so the pipeline must take that."""
        if entry is None:
            return None
        schedule, errors = read_schedule(entry)
        self.errors += errors
        if schedule is not None and input_schema is not None and not validate_schema(input_schema):
            for fault in run_input_errors(input_schema, schedule.input):
                path = f"schedule.input.{fault.field}" if fault.field else "schedule.input"
                self.wrong(path, fault.message, fault.code, fault.expected)
        return schedule

    def output(self, output: Any, steps: tuple[StepSpec, ...]) -> Any:
        """Read `output`; what is the output without it, too, is left out, so that equal specs are equal."""
        if output is None or not steps:
            return None
        if json_faults(output, max_depth=_DEEPEST_OUTPUT):
            self.wrong("output", f"is nested deeper than {_DEEPEST_OUTPUT} levels", "too_deep")
            return None
        first = len(self.expressions.written)
        self.expressions.value(output, "output")
        for written in self.expressions.written[first:]:
            for path in written.expression.references:
                self.output_path(path, written.field)
        ends = {each.id for each in steps} - {each for step in steps for each in step.needs}
        return None if len(ends) == 1 and output == show_path("steps", tuple(ends)) else output

    def output_path(self, path: Path, field: str) -> None:
        step = step_of(path)
        if path.root in ITEM_ROOTS | LOOP_ROOTS:
            self.wrong(field, f"${{{path.text}}} has no value in the output of a run", "invalid_reference")
        elif step is not None and step not in self.known:
            near = self.nearest(step, self.known)
            hint = f"; did you mean {near!r}?" if near is not None else ""
            self.wrong(field, f"{step[:200]!r} is not a step{hint}", "unknown_step", near)

    def variables(self, variables: Any) -> Mapping[str, Any]:
        """Read `variables`: constants by name, which may hold expressions over the input."""
        if variables is None:
            return {}
        if not isinstance(variables, Mapping):
            problem = f"must be an object of values by name, not {json_type(variables)}"
            self.wrong("variables", problem, "invalid_type", "object")
            return {}
        if len(variables) > _MAX_VARIABLES:
            problem = f"are {len(variables)}, at most {_MAX_VARIABLES} are allowed"
            self.wrong("variables", problem, "too_large")
            return {}
        for name, value in variables.items():
            if not _VARIABLE.match(name):
                problem = "is not a name: use up to 100 letters, digits and _, and begin with a letter"
                self.wrong(f"variables.{name[:100]}", problem, "invalid_id")
            self._variable(value, f"variables.{name[:100]}")
        return variables

    def _variable(self, value: Any, field: str) -> None:
        first = len(self.expressions.written)
        self.expressions.value(value, field)
        for written in self.expressions.written[first:]:
            for path in written.expression.references:
                if path.root != "input":
                    problem = f"${{{path.text}}} has no value here: a variable may refer to the input alone"
                    self.wrong(written.field, problem, "invalid_reference")

    def check_expressions(self, spec: PipelineSpec) -> None:
        """Check what the expressions name and compare."""
        schema = spec.input_schema
        is_valid = schema is not None and not validate_schema(schema)
        self.expressions.check(spec.variables, schema if is_valid else None)

    def check_defaults(self, spec: PipelineSpec) -> None:
        """Check what approvals give when their time is over."""
        for _, step in spec.all_steps:
            if isinstance(step.decides, Approval) and step.id in self.fields:
                check_default(self, step.decides, f"{self.fields[step.id]}.approval.default")

    def all_steps(self, document: Mapping[str, Any]) -> tuple[StepSpec, ...]:
        try:
            return self.steps(document.get("steps"), "steps")
        except TooManyEdges:
            return ()
