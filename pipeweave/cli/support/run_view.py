"""Print a run: its fields, the table of its steps, its errors and its output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support.rendering import (
    STYLES,
    is_terminal,
    run_took,
    show_fields,
    show_table,
    text,
    when,
    width,
)
from pipeweave.cli.support.run_errors import run_error, show_failures
from pipeweave.cli.support.steps import steps_of
from pipeweave.cli.support.tables import Column

if TYPE_CHECKING:
    from pipeweave.client import Run

# An output of more letters, as JSON, is not printed with its run.
MOST_OUTPUT = 2_000

_COLUMNS = (
    Column("step"),
    Column("status"),
    Column("done", wraps=True),
    Column("attempt", drop=1),
    Column("took", drop=2),
    Column("detail", wraps=True),
)


def paused(document: Mapping[str, Any]) -> str | None:
    """Since when, by whom and why a run is paused; None if it is not."""
    if not document.get("pausedAt"):
        return None
    who = f" by {document['pausedBy']}" if document.get("pausedBy") else ""
    because = f": {document['pauseReason']}" if document.get("pauseReason") else ""
    return f"since {when(document['pausedAt'])} UTC{who}{because}"


def ending_of(document: Mapping[str, Any]) -> str | None:
    """What a run does after its steps have ended, by which run, and how it ends then; of one that is over,
    what it did. None for nothing.
    """
    ending = document.get("ending")
    if not ending:
        return "; ".join(map(_part, document.get("endingParts") or ())) or None
    does = "runs its finally" if ending["stepId"] is None else f"takes {ending['stepId']} back"
    number, parts = ending["parts"].index(ending["part"]) + 1, len(ending["parts"])
    of_parts = f", part {number} of {parts}" if parts > 1 else ""
    run = f"{ending['runId']}, {ending['runStatus'] or 'which starts next'}"
    until = f"until {when(ending['timeoutAt'])} UTC at most"
    code = (ending.get("error") or {}).get("code")
    because = f" ({code})" if code else ""
    return f"{does}{of_parts} ({run}), {until}; then it is {ending['endsAs']}{because}"


def _part(part: Mapping[str, Any]) -> str:
    did = "finally" if part["stepId"] is None else f"{part['stepId']} taken back"
    return f"{did} ({part['runId']}, {part['runStatus']})" if part["runId"] else f"{did}: not run"


def show_run(run: Run, waits: str | None = None) -> None:
    """Show the current state of a run.

    Args:
        run: the run.
        waits: why it does not go on, if it does not.
    """
    document = run.document
    show_fields(
        [
            ("run", run.id),
            ("pipeline", _versioned(document)),
            ("status", run.status),
            ("paused", paused(document)),
            ("error", run_error(document)),
            ("ending", ending_of(document)),
            ("waits", waits),
            ("triggered by", _triggered_by(document)),
            ("rerun of", _rerun_of(document)),
            ("step of", document.get("parentRunId")),
            *(("edited", each) for each in edits_of(document)),
            ("created (UTC)", when(document.get("createdAt"))),
            ("took", run_took(document)),
        ]
    )
    click.echo()
    rows = [
        (each.id, each.status, each.counts(), each.attempts(), each.duration(), each.detail())
        for each in steps_of(run)
    ]
    show_table(_COLUMNS, rows, none="No step has started.")
    show_failures(document)
    _show_unseen_repairs(run)
    _show_hooks(document)
    _show_output(run)


def _show_unseen_repairs(run: Run) -> None:
    for each in run.document.get("ranBefore", ()):
        step = each["stepId"]
        click.echo(
            text(
                f"{step} ran before {', '.join(each['repaired'])} was repaired and has not seen the new "
                f"result; run it again: pipeweave rerun {run.id} --from {step} --version same"
            )
        )


def _show_hooks(document: Mapping[str, Any]) -> None:
    for each in document.get("hooks", ()):
        did = each["runId"] or (_tries(each["attempts"]) if each["url"] else "")
        why = each["reason"] or (each["error"] or {}).get("message")
        parts = (each["outcome"], did, why)
        shown = ", ".join(part for part in parts if part)
        click.echo(text(f"{each['hook']} {each['pipelineId'] or each['url']}: {shown}"))


def _tries(number: int) -> str:
    return f"{number} {'try' if number == 1 else 'tries'}"


def _triggered_by(document: Mapping[str, Any]) -> str | None:
    """What began the run, if it was more than a request: `schedule nightly`, with who it was."""
    cause = document.get("triggeredBy")
    if not cause:
        return None
    named = " ".join(str(cause[each]) for each in ("kind", "id") if cause.get(each))
    return f"{named} ({cause['actor']})" if cause.get("actor") else named


def _rerun_of(document: Mapping[str, Any]) -> str | None:
    run_id, step = document.get("rerunOf"), document.get("rerunFrom")
    return f"{run_id} from step {step}" if run_id and step else run_id


def edits_of(document: Mapping[str, Any]) -> list[str]:
    """What was edited for a rerun alone, a line each: the params of steps, and the input that reused steps
    have not read.
    """
    edits = document.get("edits") or {}
    params, other = ", ".join(edits.get("params", ())), ", ".join(edits.get("otherInput", ()))
    lines = [f"the params of {params}"] if params else []
    return lines + ([f"the input; kept results have read another: {other}"] if other else [])


def show_end(run: Run, *, shows_output: bool = True) -> None:
    """Show how a run ended: its status, its error or the first errors of its task runs, its output."""
    document = run.document
    status = click.style(run.status, fg=STYLES.get(run.status), bold=True) if is_terminal() else run.status
    error = run_error(document)
    because = f": {error}" if error else ""
    duration = run_took(document)
    click.echo(f"{run.id} {status} in {duration}{because}")
    show_failures(document)
    if shows_output:
        _show_output(run)


def _versioned(document: Mapping[str, Any]) -> str | None:
    name = document.get("pipelineId")
    return f"{name} v{document.get('pipelineVersion')}" if name else None


def _show_output(run: Run) -> None:
    """Print a small output; of a large one, say how to print it."""
    output, references = run.document.get("output"), run.document.get("outputRefs")
    if output is None and not references:
        return
    import orjson

    shown = orjson.dumps(output).decode()
    if references or len(shown) > MOST_OUTPUT:
        click.echo(f"output: large; `pipeweave output {run.id}` prints it")
    elif len(shown) + len("output: ") <= width():
        click.echo(f"output: {shown}")
    else:
        click.echo(f"output:\n{orjson.dumps(output, option=orjson.OPT_INDENT_2).decode()}")
