"""`pipeweave runs | search`: list runs by what is known of them, and find things by name or id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support.connection import connected, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.known_names import require_pipeline, require_tenant
from pipeweave.cli.support.list_options import cursor_option, limit_option
from pipeweave.cli.support.rendering import field, moment, run_took, show_list, when
from pipeweave.cli.support.run_filters import RUN_STATUSES
from pipeweave.cli.support.tables import Column

if TYPE_CHECKING:
    from pipeweave.client import Client, Document

# Of a filter that looks through rows: a command asks again so often before it leaves the rest to its caller.
MOST_LOOKS = 20


@click.command(
    epilog=examples(
        "pipeweave runs --status failed --status partial",
        "pipeweave runs --pipeline nightly --text 'no space left'",
        "pipeweave runs --meta customer=acme --min-seconds 60",
    )
)
@click.option(
    "--status",
    metavar="STATUS",
    multiple=True,
    type=click.Choice(RUN_STATUSES),
    help=f"Only runs in this status, or these: {', '.join(RUN_STATUSES)}.",
)
@click.option("--pipeline", multiple=True, help="Only runs of this pipeline, or these.")
@click.option("--text", help="Only runs with this text in their error, metadata or input.")
@click.option("--meta", metavar="KEY=VALUE", multiple=True, help="Only runs with this in their metadata.")
@click.option("--version", metavar="N", type=click.IntRange(1), help="Only runs of this pipeline version.")
@click.option(
    "--min-seconds", metavar="SECONDS", type=click.FloatRange(0), help="Only runs that took so long."
)
@click.option("--task", metavar="TASK", help="Only runs with a step that is this task.")
@click.option("--children", is_flag=True, help="With the runs that belong to a step of another run.")
@limit_option
@cursor_option
@json_option
@connected
def runs(
    client: Client,
    status: tuple[str, ...],
    pipeline: tuple[str, ...],
    text: str | None,
    meta: tuple[str, ...],
    version: int | None,
    min_seconds: float | None,
    task: str | None,
    children: bool,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> None:
    """List runs, newest first."""
    filters: dict[str, Any] = {
        "text": text,
        "meta": list(meta) or None,
        "version": version,
        "minMs": None if min_seconds is None else int(min_seconds * 1000),
        "taskId": task,
    }
    looks = MOST_LOOKS if any(each is not None for each in filters.values()) else 1
    filters |= {"children": "true"} if children else {}
    filters |= {"status": list(status) or None, "pipeline_id": list(pipeline) or None}
    items, next_cursor = _listed(client, filters, limit, cursor, looks)
    cells = {
        Column("run"): field("id"),
        Column("pipeline"): field("pipelineId"),
        Column("version", drop=4): field("pipelineVersion"),
        Column("status"): field("status"),
        Column("error", drop=1): field("errorCode"),
        moment("created (UTC)", drop=2): lambda each: when(each.get("createdAt")),
        Column("took", drop=3): run_took,
    }
    if not items and not as_json:
        require_tenant(client)
        for each in pipeline:
            require_pipeline(client, each)
    none = "No runs found. `pipeweave trigger PIPELINE` starts one."
    show_list("runs", items, cells, as_json=as_json, none=none, nextCursor=next_cursor)


def _listed(
    client: Client, filters: dict[str, Any], limit: int, cursor: str | None, looks: int
) -> tuple[list[Document], str | None]:
    """The runs, and the cursor that goes on: an answer may come before it has found all that were wanted."""
    items: list[Document] = []
    for _ in range(looks):
        page = client.runs(limit=limit - len(items), cursor=cursor, **filters)
        items += page.items
        cursor = page.next_cursor
        if cursor is None or len(items) >= limit:
            break
    return items, cursor


@click.command(epilog=examples("pipeweave search report", "pipeweave search 01m80arwk4e7"))
@click.argument("text")
@json_option
@connected
def search(client: Client, text: str, as_json: bool) -> None:
    """Find things by a part of a name, or by the beginning of an id.

    TEXT may be in the names of pipelines, tasks, schedules, triggers and services, or be the first 6
    characters or more of the id of a run, task run, dead letter or redrive. At most 20 are shown.
    """
    cells: dict[Column, Any] = {
        Column("kind"): lambda each: _KINDS.get(each["kind"], each["kind"]),
        Column("id"): field("id"),
        Column("name", drop=2): field("name"),
        Column("status", drop=1): field("status"),
    }
    show_list("hits", client.search(text), cells, as_json=as_json, none="Nothing found.", client=client)


_KINDS = {"taskRun": "task run", "deadLetter": "dead letter"}
