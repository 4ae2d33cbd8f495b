"""Pause, resume or cancel all runs that match the options of a command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from pipeweave import ids
from pipeweave.cli.support.id_arguments import LATEST
from pipeweave.cli.support.list_options import options
from pipeweave.cli.support.rendering import show_json

if TYPE_CHECKING:
    from pipeweave.client import Client, Document

OPEN_STATUSES = ("pending", "running", "paused", "error_handling")
_DONE = {"pause": "paused", "resume": "resumed", "cancel": "cancelled"}


@dataclass(frozen=True, slots=True)
class RunChoice:
    """The runs that the options of a command choose; none without a filter."""

    pipeline: str | None
    status: str | None
    is_dry_run: bool

    def __bool__(self) -> bool:
        return self.pipeline is not None or self.status is not None

    def check(self, argument: str | None, name: str) -> None:
        """Check that the command got one thing or a filter, and a dry run only with a filter.

        Args:
            argument: its argument.
            name: of the argument, as the command's help names it.

        Raises:
            UsageError: it got both, or a dry run of nothing.
        """
        if argument is not None and self:
            raise click.UsageError(f"give {name} or --pipeline and --status, not both")
        if self.is_dry_run and not self:
            raise click.UsageError("--dry-run needs --pipeline or --status")


# All open runs that match.
filter_options = options(
    click.option("--pipeline", help="All open runs of this pipeline."),
    click.option(
        "--status",
        metavar="STATUS",
        type=click.Choice(OPEN_STATUSES),
        help=f"All runs in this status: {', '.join(OPEN_STATUSES)}.",
    ),
    click.option("--dry-run", is_flag=True, help="Only count and name the runs that match."),
)


def is_run(reference: str | None) -> bool:
    """Whether a command that takes tasks and runs was given a run: `prun_…` or `latest`."""
    return reference is not None and (reference == LATEST or reference.startswith(f"{ids.RUN}_"))


def change_all(client: Client, action: str, chosen: RunChoice, reason: str | None, *, as_json: bool) -> None:
    """Do the action to all runs that match, request after request, and print how many there were."""
    from pipeweave.cli.support.known_names import require_pipeline

    done = _all(client, action, chosen, reason)
    if as_json:
        show_json(done)
        return
    if not done["matched"]:
        require_pipeline(client, chosen.pipeline)
    number = done["matched"] if chosen.is_dry_run else done["changed"]
    more = "" if done["isComplete"] else " or more"
    would = "would be " if chosen.is_dry_run else ""
    click.echo(f"{number:,}{more} runs {would}{_DONE[action]}")
    for each in done["runs"] if chosen.is_dry_run else ():
        click.echo(each)


def _all(client: Client, action: str, chosen: RunChoice, reason: str | None) -> Document:
    total: Document | None = None
    while total is None or not (total["isComplete"] or chosen.is_dry_run):
        batch = client.change_runs(
            action,
            status=chosen.status,
            pipeline_id=chosen.pipeline,
            reason=reason,
            dry_run=chosen.is_dry_run,
        )
        before = total or {"matched": 0, "changed": 0, "runs": []}
        total = {
            **batch,
            "matched": before["matched"] + batch["matched"],
            "changed": before["changed"] + batch["changed"],
            "runs": before["runs"] or batch["runs"],
        }
        if not batch["changed"]:
            break
    return total
