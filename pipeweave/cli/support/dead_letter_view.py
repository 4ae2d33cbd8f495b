"""Print a dead letter: its error first, then what it is about, its input and its attempts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

import click

from pipeweave.cli.support.rendering import show_fields, text, took, when
from pipeweave.cli.support.run_errors import place, said
from pipeweave.cli.support.tracebacks import shortened
from pipeweave.spec import ITEMS

Document = Mapping[str, Any]


def show_dead_letter(letter: Document, *, is_full: bool = False) -> None:
    """Print a dead letter; equal errors of several attempts are printed once.

    Args:
        letter: the API's answer.
        is_full: print every frame of the tracebacks.
    """
    error = letter["error"] or {}
    changed = " (the code has changed since)" if letter["codeChanged"] else ""
    show_fields(
        [
            ("dead letter", letter["id"]),
            ("error", said(letter["errorCode"], error)),
            ("details", _details(error.get("details"))),
            ("status", letter["status"]),
            ("task", letter["taskId"]),
            ("code", f"v{letter['codeVersion']}{changed}"),
            ("pipeline", letter["pipelineId"]),
            ("step", None if letter["pipelineId"] is None else place(letter)),
            ("run", letter["pipelineRunId"]),
            ("run status", letter["runStatus"]),
            ("task run", letter["taskRunId"]),
            ("failed (UTC)", when(letter["failedAt"])),
            ("fingerprint", letter["fingerprint"]),
            ("retried as", letter["retryTaskRunId"]),
            ("discarded", letter["discardReason"]),
            ("input", _json(letter["input"])),
            ("item", _json(letter["item"]) if letter["kind"] in ITEMS else None),
        ]
    )
    for attempts in _alike(letter["previousAttempts"]):
        click.echo()
        _show_attempts(attempts, is_full=is_full)


def _details(details: Any) -> str | None:
    """What the task said besides its message; None for wrong fields, which the message names."""
    is_of_fields = isinstance(details, list) and all(
        isinstance(each, dict) and each.keys() >= {"field", "message"} for each in details
    )
    return None if details is None or is_of_fields else _json(details)


def _alike(attempts: Iterable[Document]) -> Iterator[list[Document]]:
    """Attempts that ended alike, one after the other."""
    yield from (list(group) for _, group in groupby(attempts, _end))


def _end(attempt: Document) -> tuple[Any, ...]:
    error = attempt["error"] or {}
    return attempt["status"], attempt["errorCode"], error.get("message"), error.get("traceback")


def _show_attempts(attempts: list[Document], *, is_full: bool) -> None:
    first, last = attempts[0], attempts[-1]
    error = last["error"] or {}
    numbers = f"attempt {first['attempt']}"
    if len(attempts) > 1:
        numbers = f"attempts {first['attempt']} to {last['attempt']}"
    times = ", ".join(took(each.get("startedAt"), each.get("finishedAt")) for each in attempts)
    same = ", the same each time" if len(attempts) > 1 else ""
    click.echo(f"{numbers}: {last['status']}, {text(last['errorCode'])}{same} ({times})")
    traceback = str(error.get("traceback") or error.get("message") or "")
    for line in traceback.splitlines() if is_full else shortened(traceback):
        # Line by line, without control characters, which a terminal might obey.
        click.echo("  " + "".join(sign if sign.isprintable() else "?" for sign in line))


def _json(value: Any) -> str:
    import orjson

    return orjson.dumps(value).decode()
