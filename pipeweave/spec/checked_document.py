"""Checks a pipeline document as far as the document alone says, and shapes what is said of it (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pipeweave.errors import InvalidSpec
from pipeweave.spec.document import parse_spec
from pipeweave.spec.graph import dry_run
from pipeweave.spec.pipeline_spec import PipelineSpec

# The id of a document that is checked without one.
UNNAMED: Final = "unnamed"


def parse_unstored(document: Mapping[str, Any]) -> PipelineSpec:
    """Parse a document that need not have an id. Raises InvalidSpec."""
    return parse_spec(document, id=None if "id" in document else UNNAMED)


def checked_document(
    errors: list[dict[str, Any]],
    warnings: Sequence[dict[str, Any]] = (),
    spec: PipelineSpec | None = None,
) -> dict[str, Any]:
    """What is said of a document: {valid, errors, warnings, spec, specHash}.

    Args:
        spec: what it was parsed to; None if it could not be.
    """
    is_valid = spec is not None and not errors
    return {
        "valid": is_valid,
        "errors": errors,
        "warnings": list(warnings),
        "spec": spec.to_json() if spec is not None and is_valid else None,
        "specHash": spec.spec_hash if spec is not None and is_valid else None,
    }


def check_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """Check a document without an orchestrator, which alone knows the tasks: `checked_document`."""
    try:
        spec = parse_unstored(document)
    except InvalidSpec as error:
        return checked_document([each.to_json() for each in error.errors])
    return checked_document([], [each.to_json() for each in dry_run(spec).warnings], spec)
