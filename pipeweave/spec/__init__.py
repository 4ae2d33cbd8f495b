"""Pipeline specs: parse documents, check the graph, resolve references, decide which step runs next.

Every room and layer above may call it. It imports only the base modules, and it is pure: it must never call
a task, read a file or touch the database.
"""

from __future__ import annotations

from pipeweave.spec import references, rules, time_limits, timetable
from pipeweave.spec.declared_schedule import DeclaredSchedule, read_schedule
from pipeweave.spec.derivation import derive
from pipeweave.spec.document import parse_spec
from pipeweave.spec.graph import DryRun, Graph, GraphError, dry_run, validate_graph
from pipeweave.spec.hooks import HOOK_STATUSES, HookSpec
from pipeweave.spec.kinds import CALLED, ITEMS, KINDS, STEPS, WITH_ITEMS, StepKind, TaskRunKind
from pipeweave.spec.output import WITH_OUTPUT, named_in, output_template, run_output
from pipeweave.spec.parameter_checks import Parameters, parameter_errors
from pipeweave.spec.pipeline_spec import MapSpec, PipelineSpec, StepSpec
from pipeweave.spec.reference_syntax import escape, show_path
from pipeweave.spec.rules import CODES, FAIL_FAST, FAILURE_MODES, PINNED, Decision, Predecessor

__all__ = [
    "CALLED",
    "CODES",
    "FAILURE_MODES",
    "FAIL_FAST",
    "HOOK_STATUSES",
    "ITEMS",
    "KINDS",
    "PINNED",
    "STEPS",
    "WITH_ITEMS",
    "WITH_OUTPUT",
    "Decision",
    "DeclaredSchedule",
    "DryRun",
    "Graph",
    "GraphError",
    "HookSpec",
    "MapSpec",
    "Parameters",
    "PipelineSpec",
    "Predecessor",
    "StepKind",
    "StepSpec",
    "TaskRunKind",
    "derive",
    "dry_run",
    "escape",
    "named_in",
    "output_template",
    "parameter_errors",
    "parse_spec",
    "read_schedule",
    "references",
    "rules",
    "run_output",
    "show_path",
    "time_limits",
    "timetable",
    "validate_graph",
]
