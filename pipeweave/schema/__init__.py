"""Input schemas: check that a schema is valid, and that an input fits it.

Every room and layer above may call it. It imports only the base modules. It must never load a remote
reference: a schema is complete in itself.
"""

from __future__ import annotations

from pipeweave.schema.definition import TYPES, validate_schema
from pipeweave.schema.run_input import run_input_errors
from pipeweave.schema.task_input import task_input_errors, task_input_schema
from pipeweave.schema.validation import apply_defaults, validate_input

__all__ = [
    "TYPES",
    "apply_defaults",
    "run_input_errors",
    "task_input_errors",
    "task_input_schema",
    "validate_input",
    "validate_schema",
]
