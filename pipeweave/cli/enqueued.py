"""`pipeweave enqueued`: list the runs that programs have enqueued and that have not started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support.connection import connected, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.list_options import cursor_option, limit_option
from pipeweave.cli.support.rendering import field, moment, show_list, when
from pipeweave.cli.support.tables import Column

if TYPE_CHECKING:
    from pipeweave.client import Client, Document

# Status -> what is said when there is none.
STATUSES = {
    "waiting": "No enqueued run waits.",
    "refused": "No enqueued run was refused.",
    "repeated": "No enqueued run has the token of a run before.",
}


@click.command(epilog=examples("pipeweave enqueued", "pipeweave enqueued --status refused --limit 5"))
@click.option(
    "--status",
    type=click.Choice(tuple(STATUSES)),
    default="waiting",
    help="waiting (the default): not started yet. refused: it never will. repeated: a run before has its"
    " run token.",
)
@limit_option
@cursor_option
@json_option
@connected
def enqueued(client: Client, status: str, limit: int, cursor: str | None, as_json: bool) -> None:
    """List enqueued runs that have not started, and why.

    Programs enqueue them in transactions of their own. Those that have started are runs.
    """
    page = client.enqueued_runs(status=status, limit=limit, cursor=cursor)
    cells: dict[Column, Any] = {
        Column("run"): field("id"),
        Column("pipeline"): field("pipelineId"),
        moment("enqueued (UTC)", drop=2): lambda each: when(each["enqueuedAt"]),
        Column("by", drop=4): field("enqueuedBy"),
    }
    if status == "repeated":
        cells |= {Column("token", drop=3): field("runToken"), Column("its run", drop=1): field("firstRunId")}
    else:
        cells |= {Column("tries", drop=3): field("tries"), Column("why", wraps=True, breaks=True): _why}
    show_list("enqueuedRuns", page, cells, as_json=as_json, none=STATUSES[status], client=client)


def _why(each: Document) -> str:
    """Why the last try failed; empty before the first one."""
    return f"{each['errorCode']}: {each['error']}" if each["errorCode"] else ""
