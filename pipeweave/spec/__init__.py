"""Pipeline specs: parse documents, check the graph, resolve references, decide which step runs next.

Every room and layer above may call it. It imports only the base modules, and it is pure: it must never call
a task, read a file or touch the database.
"""

from __future__ import annotations

from pipeweave.spec import references, rounds, rules, time_limits, timetable
from pipeweave.spec.async_defaults import NO_ASYNC_DEFAULTS, AsyncDefaults
from pipeweave.spec.child_calls import DEFAULT_FINALLY_MS, ChildCall, ErrorRule
from pipeweave.spec.child_checks import child_errors, child_references, unknown_pipelines
from pipeweave.spec.child_steps import (
    MAX_DEPTH,
    Body,
    ChildPipeline,
    ChildStep,
    LoopStep,
    body_of,
    check_children,
)
from pipeweave.spec.declared_schedule import DeclaredSchedule, read_schedule
from pipeweave.spec.derivation import derive
from pipeweave.spec.document import parse_spec
from pipeweave.spec.edited_params import edited_params_errors, takes_params
from pipeweave.spec.engine_steps import (
    CHILD_TASKS,
    ENGINE_TASK_PREFIX,
    Case,
    Choice,
    EngineStep,
    FailIf,
    Gather,
    Transform,
    engine_task,
)
from pipeweave.spec.graph import DryRun, Graph, dry_run, validate_graph
from pipeweave.spec.graph_error import GraphError
from pipeweave.spec.hooks import HOOK_NAMES, HOOK_STATUSES, ON_WAITING, HookSpec
from pipeweave.spec.joins import ALL, ALL_DONE, ANY, JoinRule
from pipeweave.spec.kinds import (
    CALLED,
    ENGINE,
    ITEMS,
    KINDS,
    STEPS,
    WITH_ITEMS,
    StepKind,
    TaskRunKind,
    seen,
)
from pipeweave.spec.output import WITH_OUTPUT, named_in, output_template, run_output
from pipeweave.spec.parameter_checks import ParameterError, Parameters, parameter_errors
from pipeweave.spec.pipeline_spec import MapSpec, PipelineSpec, StepRetry, StepSpec
from pipeweave.spec.reference_syntax import escape, show_path
from pipeweave.spec.rules import CODES, FAIL_FAST, FAILURE_MODES, PINNED, Decision, Predecessor
from pipeweave.spec.secret_params import secret_errors, split_secrets, tasks_with_secrets
from pipeweave.spec.unknown_tasks import UnknownTask, unknown_tasks
from pipeweave.spec.wait_steps import NO_DEFAULT, Approval, SignalWait, Sleep, WaitStep, default_value

__all__ = [
    "ALL",
    "ALL_DONE",
    "ANY",
    "CALLED",
    "CHILD_TASKS",
    "CODES",
    "DEFAULT_FINALLY_MS",
    "ENGINE",
    "ENGINE_TASK_PREFIX",
    "FAILURE_MODES",
    "FAIL_FAST",
    "HOOK_NAMES",
    "HOOK_STATUSES",
    "ITEMS",
    "KINDS",
    "MAX_DEPTH",
    "NO_ASYNC_DEFAULTS",
    "NO_DEFAULT",
    "ON_WAITING",
    "PINNED",
    "STEPS",
    "WITH_ITEMS",
    "WITH_OUTPUT",
    "Approval",
    "AsyncDefaults",
    "Body",
    "Case",
    "ChildCall",
    "ChildPipeline",
    "ChildStep",
    "Choice",
    "Decision",
    "DeclaredSchedule",
    "DryRun",
    "EngineStep",
    "ErrorRule",
    "FailIf",
    "Gather",
    "Graph",
    "GraphError",
    "HookSpec",
    "JoinRule",
    "LoopStep",
    "MapSpec",
    "ParameterError",
    "Parameters",
    "PipelineSpec",
    "Predecessor",
    "SignalWait",
    "Sleep",
    "StepKind",
    "StepRetry",
    "StepSpec",
    "TaskRunKind",
    "Transform",
    "UnknownTask",
    "WaitStep",
    "body_of",
    "check_children",
    "child_errors",
    "child_references",
    "default_value",
    "derive",
    "dry_run",
    "edited_params_errors",
    "engine_task",
    "escape",
    "named_in",
    "output_template",
    "parameter_errors",
    "parse_spec",
    "read_schedule",
    "references",
    "rounds",
    "rules",
    "run_output",
    "secret_errors",
    "seen",
    "show_path",
    "split_secrets",
    "takes_params",
    "tasks_with_secrets",
    "time_limits",
    "timetable",
    "unknown_pipelines",
    "unknown_tasks",
    "validate_graph",
]
