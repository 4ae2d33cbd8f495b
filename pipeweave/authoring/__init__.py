"""Everything users write tasks and pipelines with: decorators, Context, Retry, Schedule; binds calls.

Users import from `pipeweave`; testing, the workers, the orchestrator and the API may import from here. It
imports the base modules, `schema` and `spec`. It must never import a later room, nor load pydantic before a
value needs it. The decorators `task` and `pipeline` are not handed on here, because the submodules have the
same names: import them from `pipeweave`.
"""

from __future__ import annotations

from pipeweave.authoring.calling import CallResult, bind, encode, outcome_of
from pipeweave.authoring.context import Context, Progress, TaskResult
from pipeweave.authoring.document_loading import SUFFIXES, load_documents
from pipeweave.authoring.hint_checks import check_hints
from pipeweave.authoring.idempotency_keys import KEY_CHARACTERS, KEY_EXPECTED, is_key, key_of
from pipeweave.authoring.pipeline import Pipeline, registered_pipeline, registered_pipelines
from pipeweave.authoring.raised import Raised, RaisedElsewhere, describe
from pipeweave.authoring.retry import Retry, RetryPolicy, classify_error
from pipeweave.authoring.schedule import Schedule
from pipeweave.authoring.suspend import PENDING, Suspend, read_literal
from pipeweave.authoring.task import Task, collect, duplicate_tasks, registered_tasks
from pipeweave.authoring.task_spec import TaskSpec
from pipeweave.option_checks import (
    BACKOFFS,
    CODES_EXPECTED,
    FAIL,
    MAX_CODE,
    MAX_CODES,
    MAX_MULTIPLIER,
    MAX_RETRIES,
    ON_EXHAUSTED,
    PAUSE,
    QUEUE_EXPECTED,
    QUEUE_PATTERN,
    Backoff,
    OnExhausted,
    are_codes,
    is_queue,
)

__all__ = [
    "BACKOFFS",
    "CODES_EXPECTED",
    "FAIL",
    "KEY_CHARACTERS",
    "KEY_EXPECTED",
    "MAX_CODE",
    "MAX_CODES",
    "MAX_MULTIPLIER",
    "MAX_RETRIES",
    "ON_EXHAUSTED",
    "PAUSE",
    "PENDING",
    "QUEUE_EXPECTED",
    "QUEUE_PATTERN",
    "SUFFIXES",
    "Backoff",
    "CallResult",
    "Context",
    "OnExhausted",
    "Pipeline",
    "Progress",
    "Raised",
    "RaisedElsewhere",
    "Retry",
    "RetryPolicy",
    "Schedule",
    "Suspend",
    "Task",
    "TaskResult",
    "TaskSpec",
    "are_codes",
    "bind",
    "check_hints",
    "classify_error",
    "collect",
    "describe",
    "duplicate_tasks",
    "encode",
    "is_key",
    "is_queue",
    "key_of",
    "load_documents",
    "outcome_of",
    "read_literal",
    "registered_pipeline",
    "registered_pipelines",
    "registered_tasks",
]
