"""Run all runs again that match the options of `pipeweave rerun`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support.rendering import show_json, text

if TYPE_CHECKING:
    from pipeweave.client import Client, Document

FINAL_STATUSES = ("completed", "partial", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class Matching:
    """Which runs.

    Args:
        status: how they ended.
        pipeline: only runs of this one; None for all.
        options: further members of the request, as the API names them.
        is_dry_run: only count and name them.
    """

    status: str
    pipeline: str | None
    options: dict[str, Any]
    is_dry_run: bool


def rerun_all(client: Client, matching: Matching, *, as_json: bool) -> bool:
    """Run them again, request after request, and print how many there were, and why others were refused.

    Returns:
        Whether none was refused.
    """
    from pipeweave.cli.support.known_names import require_pipeline

    outcomes = list(_pages(client, matching))
    refused = [each for each in outcomes if each["errorCode"] is not None]
    if as_json:
        show_json({"dryRun": matching.is_dry_run, "runs": outcomes})
        return not refused
    if not outcomes:
        require_pipeline(client, matching.pipeline)
    would = "would run" if matching.is_dry_run else "run"
    click.echo(f"{len(outcomes) - len(refused):,} runs {would} again")
    for each in outcomes if matching.is_dry_run else ():
        click.echo(each["runId"])
    for each in refused:
        click.echo(f"{each['runId']}: {each['errorCode']}: {text(each['error'])}", err=True)
    return not refused


def _pages(client: Client, matching: Matching) -> Iterator[Document]:
    cursor: str | None = None
    while True:
        further = {} if cursor is None else {"cursor": cursor}
        if matching.pipeline is not None:
            further["pipelineId"] = matching.pipeline
        answer = client.rerun_all(
            status=matching.status, dryRun=matching.is_dry_run, **matching.options, **further
        )
        yield from answer["runs"]
        if (cursor := answer["nextCursor"]) is None:
            return
