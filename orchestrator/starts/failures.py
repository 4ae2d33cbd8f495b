"""Says why a run could not start: the columns that rows keep of it, and the error for an input."""

from __future__ import annotations

from collections.abc import Sequence

from pipeweave.errors import FieldError, InputValidationFailed, PipeWeaveError

# Longer texts of an error are cut: no column takes more.
MAX_ERROR_CHARS = 1_000


def columns(failure: PipeWeaveError | None) -> dict[str, str | None]:
    """The columns `error_code` and `error` of a row."""
    if failure is None:
        return {"error_code": None, "error": None}
    return {"error_code": failure.code, "error": failure.detail[:MAX_ERROR_CHARS]}


def refuse(pipeline_id: str, faults: Sequence[FieldError]) -> None:
    """Raise an error if a pipeline refuses an input for these mistakes.

    Raises:
        InputValidationFailed: has one FieldError per mistake.
    """
    if faults:
        errors = [
            FieldError(
                f"input.{each.field}" if each.field else "input", each.message, each.code, each.expected
            )
            for each in faults
        ]
        more = f" (and {len(errors) - 1} more)" if errors[1:] else ""
        raise InputValidationFailed(
            f"pipeline {pipeline_id!r}: {errors[0].field}: {errors[0].message}{more}", errors=errors
        )
