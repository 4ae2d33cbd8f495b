"""Show the progress of a run: a live table on a terminal, one line per change elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support.rendering import STYLES, is_terminal, show_fields, show_table, text, took, when

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pipeweave.client import Client, Run

BAR_WIDTH = 24
REDRAWS_PER_SECOND = 8
SHOWN_FAILURES = 5
SHOWN_STEPS = 20


@dataclass(frozen=True, slots=True)
class StepProgress:
    """The progress of one step; `done`, `total` and `failed` count its task runs (a map has one per item)."""

    id: str
    status: str
    done: int
    total: int
    failed: int
    started_at: str | None
    finished_at: str | None

    @property
    def is_final(self) -> bool:
        return self.status in ("completed", "failed", "timeout", "cancelled", "skipped")


def steps_of(run: Run) -> list[StepProgress]:
    """The progress of each step of a run, in the order of its pipeline."""
    return [
        StepProgress(
            each["id"],
            each["status"],
            each["done"],
            each["total"],
            each["failed"],
            each.get("startedAt"),
            each.get("finishedAt"),
        )
        for each in run.document.get("steps") or ()
    ]


def follow(client: Client, run_id: str, timeout: float | None = None) -> Run:
    """Show the progress of a run until it is final, then its result."""
    final = _live(client, run_id, timeout) if is_terminal() else _lines(client, run_id, timeout)
    show_end(final)
    return final


def show_run(run: Run) -> None:
    """Show the current state of a run."""
    document = run.document
    show_fields(
        [
            ("run", run.id),
            ("pipeline", _versioned(document)),
            ("status", run.status),
            ("created (UTC)", when(document.get("createdAt"))),
            ("took", took(document.get("startedAt"), document.get("finishedAt"))),
        ]
    )
    click.echo()
    show_table(
        ("step", "status", "done", "took"),
        [
            (each.id, each.status, f"{each.done}/{each.total}", took(each.started_at, each.finished_at))
            for each in steps_of(run)
        ],
        none="No step has started.",
    )
    _show_failures(document)


def show_end(run: Run) -> None:
    """Show the final status of a run, and the first errors if task runs failed."""
    document = run.document
    duration = took(document.get("startedAt"), document.get("finishedAt"))
    click.echo(f"{run.id} {_styled(run.status)} in {duration}")
    _show_failures(document)


def _versioned(document: Mapping[str, Any]) -> str | None:
    name = document.get("pipelineId")
    return f"{name} v{document.get('pipelineVersion')}" if name else None


def _show_failures(document: Mapping[str, Any]) -> None:
    failures = list(_failures(document))
    for line in failures[:SHOWN_FAILURES]:
        click.echo(f"  {line}", err=True)
    if len(failures) > SHOWN_FAILURES:
        click.echo(f"  and {len(failures) - SHOWN_FAILURES} more", err=True)


def _failures(document: Mapping[str, Any]) -> Iterator[str]:
    for each in document.get("taskRuns") or ():
        if each["status"] in ("failed", "timeout"):
            place = each["stepId"] + (f"[{each['mapIndex']}]" if each.get("mapIndex") is not None else "")
            said = f"{text(each.get('errorCode'))}: {text(_message(each.get('error')))}"
            yield f"{place} {each['status']}: {said}"


def _message(error: Any) -> Any:
    return error.get("message", error) if isinstance(error, dict) else error


def _styled(status: str) -> str:
    return click.style(status, fg=STYLES.get(status), bold=True) if is_terminal() else status


def _lines(client: Client, run_id: str, timeout: float | None) -> Run:
    told: dict[str, str] = {}

    def tell(run: Run) -> None:
        for each in steps_of(run):
            line = _line(each)
            if each.status != "pending" and told.get(each.id) != line:
                told[each.id] = line
                click.echo(f"{each.id}  {line}")

    return client.wait(run_id, timeout, tell)


def _line(step: StepProgress) -> str:
    """The line of a step; it changes with the status and at every quarter of a map, to keep logs short."""
    if step.is_final:
        count = f"  {step.done}/{step.total}" if step.total > 1 else ""
        return f"{step.status}{count}  {took(step.started_at, step.finished_at)}"
    quarter = step.done * 4 // step.total if step.total > 1 else 0
    return f"{step.status}  {quarter * 25} % of {step.total}" if quarter else step.status


def _live(client: Client, run_id: str, timeout: float | None) -> Run:
    from rich.live import Live

    with Live(refresh_per_second=REDRAWS_PER_SECOND) as live:
        return client.wait(run_id, timeout, lambda run: live.update(_picture(run)))


def _picture(run: Run) -> RenderableType:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    steps = steps_of(run)
    table = Table.grid(padding=(0, 2))
    for each in shown_steps(steps):
        table.add_row(
            each.id,
            Text(each.status, style=STYLES.get(each.status, "")),
            ProgressBar(
                total=max(each.total, 1),
                completed=each.done,
                width=BAR_WIDTH,
                complete_style="cyan",
                finished_style="green",
            ),
            f"{each.done:,} / {each.total:,}",
            Text(f"{each.failed:,} failed" if each.failed else "", style="red"),
            took(each.started_at, each.finished_at) if each.started_at else "",
        )
    if len(steps) <= SHOWN_STEPS:
        return table
    done = sum(each.is_final for each in steps)
    return Group(table, Text(f"{done:,} of {len(steps):,} steps are done", style="bright_black"))


def shown_steps(steps: list[StepProgress]) -> list[StepProgress]:
    """The steps to show on a terminal: all, or if there are many, the running and failed steps."""
    if len(steps) <= SHOWN_STEPS:
        return steps
    wanted = [each for each in steps if each.started_at and (not each.is_final or each.failed)]
    return wanted[:SHOWN_STEPS]
