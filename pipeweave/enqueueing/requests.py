"""Check what a caller wants to enqueue, and write it as the statement takes it. No statement is sent here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from pipeweave.errors import InvalidInput
from pipeweave.field_errors import MOST_ERRORS, FieldErrors
from pipeweave.json_conversion import to_json_value
from pipeweave.json_values import json_faults, kind_of
from pipeweave.size_limits import (
    MAX_BODY_BYTES,
    MAX_ENQUEUED,
    MAX_ENQUEUED_BYTES,
    MAX_JSON_DEPTH,
    MAX_METADATA_BYTES,
    MAX_PRIORITY,
    MAX_RUN_TOKEN,
    MIN_PRIORITY,
)
from pipeweave.spec import FAILURE_MODES

# A trace context has 55 characters; later versions may have more.
MAX_TRACEPARENT = 200
# The schema stands in the statement, so it must be a plain name.
_SCHEMA = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\Z")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the runs of one call have in common; see `pipeweave.enqueue`."""

    tenant: str
    failure_mode: str | None
    priority: int | None
    metadata: Mapping[str, Any] | None
    traceparent: str | None
    schema: str


def document_of_one(pipeline_id: str, input: Any, run_token: str | None, options: RunOptions) -> str:
    """One run as the parameter of the statement.

    Raises:
        InvalidInput: with every mistake.
    """
    mistakes = FieldErrors()
    row = _shared(mistakes, pipeline_id, options)
    row |= {"input": _input(mistakes, input, "input"), "run_token": _token(mistakes, run_token, "run_token")}
    return _written(mistakes, [row])


def document_of_many(
    pipeline_id: str, inputs: Iterable[Any], run_tokens: Iterable[str] | None, options: RunOptions
) -> str | None:
    """Several runs as the parameter of the statement; None for no runs.

    Raises:
        InvalidInput: with every mistake.
    """
    mistakes = FieldErrors()
    shared = _shared(mistakes, pipeline_id, options)
    listed = _listed(mistakes, inputs, "inputs")
    tokens: Sequence[str | None] = [None] * len(listed)
    if run_tokens is not None:
        tokens = _listed(mistakes, run_tokens, "run_tokens")
        if len(tokens) != len(listed):
            mistakes.wrong(
                "run_tokens", f"are {len(tokens):,}, and the inputs are {len(listed):,}", "wrong_length"
            )
    rows = []
    for number, (input, token) in enumerate(zip(listed, tokens, strict=False)):
        if len(mistakes.errors) >= MOST_ERRORS:
            break
        converted = _input(mistakes, input, f"inputs[{number}]")
        rows.append(
            shared | {"input": converted, "run_token": _token(mistakes, token, f"run_tokens[{number}]")}
        )
    return _written(mistakes, rows) if rows or mistakes.errors else None


def _shared(mistakes: FieldErrors, pipeline_id: str, options: RunOptions) -> dict[str, Any]:
    if not isinstance(options.schema, str) or not _SCHEMA.match(options.schema):
        mistakes.wrong("schema", "is not a name of a schema", "invalid_name", "letters, digits and _")
    mode = options.failure_mode
    if mode is not None and mode not in FAILURE_MODES:
        mistakes.wrong(
            "failure_mode", "is not a failure mode", "invalid_enum_value", ", ".join(FAILURE_MODES)
        )
    return {
        "tenant_id": mistakes.name(options.tenant, "tenant"),
        "pipeline_id": mistakes.name(pipeline_id, "pipeline_id"),
        "failure_mode": mode,
        "priority": _priority(mistakes, options.priority),
        "metadata": _metadata(mistakes, options.metadata),
        "traceparent": _traceparent(mistakes, options.traceparent),
    }


def _priority(mistakes: FieldErrors, priority: Any) -> int | None:
    is_whole = isinstance(priority, int) and not isinstance(priority, bool)
    if priority is None or (is_whole and MIN_PRIORITY <= priority <= MAX_PRIORITY):
        return priority  # type: ignore[no-any-return]
    expected = f"a whole number from {MIN_PRIORITY} to {MAX_PRIORITY}, lower runs first"
    mistakes.wrong(
        "priority", "is out of range" if is_whole else f"is {kind_of(priority)}", "out_of_range", expected
    )
    return None


def _traceparent(mistakes: FieldErrors, header: Any) -> str | None:
    if header is None or (isinstance(header, str) and len(header) <= MAX_TRACEPARENT and header.isascii()):
        # One that is no trace context is ignored, as the standard says.
        return None if header is None or "\0" in header else header
    mistakes.wrong(
        "traceparent", "is not a header", "invalid", f"a text of at most {MAX_TRACEPARENT} characters"
    )
    return None


def _metadata(mistakes: FieldErrors, metadata: Any) -> Any:
    if metadata is None:
        return None
    if not isinstance(metadata, Mapping):
        mistakes.wrong("metadata", f"is {kind_of(metadata)}", "invalid_type", "a dict")
        return None
    if faults := json_faults(metadata, "metadata", max_depth=MAX_JSON_DEPTH):
        mistakes.errors += faults
        return None
    size = len(orjson.dumps(dict(metadata)))
    if size > MAX_METADATA_BYTES:
        mistakes.wrong(
            "metadata", f"takes {size:,} bytes of JSON, at most {MAX_METADATA_BYTES:,} are stored", "too_long"
        )
    return dict(metadata)


def _input(mistakes: FieldErrors, input: Any, field: str) -> Any:
    """An input as JSON text; {} for None."""
    converted, faults = to_json_value({} if input is None else input, field)
    if faults:
        mistakes.errors += faults
        return None
    content = orjson.dumps(converted)
    if len(content) > MAX_BODY_BYTES:
        mistakes.wrong(
            field, f"takes {len(content):,} bytes of JSON, at most {MAX_BODY_BYTES:,} are taken", "too_big"
        )
    return orjson.Fragment(content)


def _token(mistakes: FieldErrors, token: Any, field: str) -> str | None:
    if token is None or (
        isinstance(token, str) and 0 < len(token) <= MAX_RUN_TOKEN and not json_faults(token)
    ):
        return token
    mistakes.wrong(field, "is not a run token", "invalid", f"a text of 1 to {MAX_RUN_TOKEN} characters")
    return None


def _listed(mistakes: FieldErrors, values: Iterable[Any], field: str) -> Sequence[Any]:
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        mistakes.wrong(field, f"is {kind_of(values)}", "invalid_type", "a list")
        return []
    listed: list[Any] = []
    for each in values:
        if len(listed) == MAX_ENQUEUED:
            mistakes.wrong(field, f"are more than {MAX_ENQUEUED:,}", "too_many", f"at most {MAX_ENQUEUED:,}")
            return []
        listed.append(each)
    return listed


def _written(mistakes: FieldErrors, rows: Sequence[Mapping[str, Any]]) -> str:
    document = b"" if mistakes.errors else orjson.dumps(rows)
    if len(document) > MAX_ENQUEUED_BYTES:
        expected = f"at most {MAX_ENQUEUED_BYTES:,} bytes in one call"
        mistakes.wrong("inputs", f"take {len(document):,} bytes of JSON", "too_big", expected)
    if mistakes.errors:
        first = mistakes.errors[0]
        more = f" (and {len(mistakes.errors) - 1} more)" if mistakes.errors[1:] else ""
        raise InvalidInput(f"{first.sentence()}{more}", errors=mistakes.errors[:MOST_ERRORS])
    return document.decode()
