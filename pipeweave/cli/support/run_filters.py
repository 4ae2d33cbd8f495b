"""Options of commands that choose many runs, as the list of runs in the API filters them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import click

from pipeweave.cli.support.lifetime import Lifetime, time_of
from pipeweave.cli.support.list_options import options

RUN_STATUSES = (
    "pending",
    "running",
    "paused",
    "error_handling",
    "completed",
    "partial",
    "failed",
    "cancelled",
)

run_filter_options = options(
    click.option(
        "--status",
        multiple=True,
        metavar="STATUS",
        type=click.Choice(RUN_STATUSES),
        help=f"Only runs in this status, or these: {', '.join(RUN_STATUSES)}.",
    ),
    click.option("--pipeline", multiple=True, help="Only runs of this pipeline, or these."),
    click.option("--triggered-by", metavar="KIND", help="Only runs that such a thing began, e.g. schedule."),
    click.option(
        "--since", type=Lifetime(), help="Only runs created at most this long ago, or since a time."
    ),
    click.option("--until", type=Lifetime(), help="Only runs created longer ago, or before a time."),
    click.option("--text", help="Only runs with this text in their error, metadata or input."),
    click.option("--meta", metavar="KEY=VALUE", multiple=True, help="Only runs with this in their metadata."),
    click.option(
        "--pipeline-version", metavar="N", type=click.IntRange(1), help="Only runs of this pipeline version."
    ),
    click.option("--min-ms", metavar="MS", type=click.IntRange(0), help="Only runs that took so long."),
    click.option("--task", metavar="TASK", help="Only runs with a step that is this task."),
)


def run_filters(values: Mapping[str, Any]) -> dict[str, Any]:
    """The filters that are given, as the API names them; times that are given as ages become times."""
    now = datetime.now(UTC)
    filters = {
        "status": list(values["status"]),
        "pipelineId": list(values["pipeline"]),
        "triggeredBy": values["triggered_by"],
        "createdAfter": time_of(values["since"], now),
        "createdBefore": time_of(values["until"], now),
        "text": values["text"],
        "meta": list(values["meta"]),
        "version": values["pipeline_version"],
        "minMs": values["min_ms"],
        "taskId": values["task"],
    }
    return {name: value for name, value in filters.items() if value not in (None, [])}
