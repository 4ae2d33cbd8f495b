"""`pipeweave trigger --batch`: start a run for each input of a file, in as few requests as possible."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click
import orjson

from pipeweave.cli.support.rendering import show_json, show_warnings
from pipeweave.client import Run, without_none
from pipeweave.errors import FieldError, InvalidInput, MalformedJson, PipeWeaveError
from pipeweave.json_values import write_json
from pipeweave.size_limits import MAX_BATCH, MAX_BODY_BYTES

if TYPE_CHECKING:
    from pipeweave.client import Client

# Bytes that a run takes in a request besides its input: its other fields, brackets and commas.
_MORE_BYTES = 1_000

_RUN = re.compile(r"^runs\[(\d+)\]")


def trigger_all(
    client: Client, pipeline: str, content: bytes, options: Mapping[str, Any], *, as_json: bool
) -> None:
    """Start a run for each input and show the runs in order.

    Each request starts all of its runs or none. If a request is refused, the runs of earlier requests are
    shown, and the error says how many inputs were started.

    Raises:
        MalformedJson: a line is not JSON; nothing is started.
        PipeWeaveError: a request was refused.
    """
    inputs = read_inputs(content)
    same = without_none(
        failureMode=options["failure_mode"],
        priority=options["priority"],
        queue=options["queue"],
        requires=options["requires"],
        runToken=options["run_token"],
    )
    started: list[Run] = []
    try:
        for part in requests(inputs):
            runs = client.trigger_batch(
                pipeline, [{"input": each, **same} for each in part], version=options["version"]
            )
            for run in runs:
                show_warnings(run.document, f"input {len(started) + 1}: ")
                started.append(run)
                if not as_json:
                    click.echo(f"{run.id} {run.status}")
    except PipeWeaveError as error:
        if started:
            error.errors = tuple(_counted_from(len(started), each) for each in error.errors)
            error.hint = (
                f"the first {len(started):,} of {len(inputs):,} inputs were started, the others were not"
            )
        raise
    finally:
        if as_json and (started or not inputs):
            show_json({"runs": [run.document for run in started]})


def _counted_from(before: int, error: FieldError) -> FieldError:
    """Change the run's index in the error's field from its index in the request to its index in the file."""
    field = _RUN.sub(lambda match: f"runs[{int(match[1]) + before}]", error.field)
    return FieldError(field, error.message, error.code, error.expected)


def read_inputs(content: bytes) -> list[Any]:
    """Read the inputs from a JSON list, or from lines with one JSON value each; empty lines are skipped.

    Raises:
        MalformedJson: a line is not JSON.
    """
    try:
        whole = orjson.loads(content)
    except orjson.JSONDecodeError:
        return list(_lines(content))
    return whole if isinstance(whole, list) else [whole]


def _lines(content: bytes) -> Iterator[Any]:
    for number, line in enumerate(content.splitlines(), start=1):
        if line.strip():
            try:
                yield orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise MalformedJson(
                    f"--batch: line {number} is not JSON: {error}",
                    hint="write one input per line, or a JSON list of inputs",
                ) from error


def _written(value: Any) -> bytes:
    try:
        return write_json(value)
    except TypeError as error:
        raise InvalidInput(f"--batch: an input cannot be sent: {error}") from error


def requests(inputs: list[Any]) -> Iterator[list[Any]]:
    """Split the inputs into requests of at most MAX_BATCH inputs and less than MAX_BODY_BYTES."""
    part: list[Any] = []
    size = 0
    for each in inputs:
        more = len(_written(each)) + _MORE_BYTES
        if part and (len(part) == MAX_BATCH or size + more > MAX_BODY_BYTES):
            yield part
            part, size = [], 0
        part.append(each)
        size += more
    if part:
        yield part
