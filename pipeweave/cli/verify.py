"""`pipeweave verify`: check that the stored rows of runs agree with their events."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from pipeweave import ids
from pipeweave.cli.support.connection import json_option, with_database
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.lifetime import Lifetime
from pipeweave.cli.support.rendering import show_json, text
from pipeweave.errors import NotFound

if TYPE_CHECKING:
    from pipeweave.orchestrator.diagnosis import verify as verification
    from pipeweave.orchestrator.store import Database

# The JSON document is held in memory; without --json there is no limit.
MOST_IN_JSON = 1_000


@click.command(epilog=examples("pipeweave verify --since 24h"))
@click.argument("run_ids", metavar="[RUN_ID]...", nargs=-1)
@click.option("--all", "is_all", is_flag=True, help="Verify all runs, newest first.")
@click.option(
    "--since", type=Lifetime(), help="Verify the runs created at most this long ago, or since a time."
)
@click.option(
    "-n",
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    help="With --all or --since: at most this many runs.",
)
@json_option
@with_database
@click.pass_context
def verify(
    ctx: click.Context,
    database_url: str,
    run_ids: tuple[str, ...],
    is_all: bool,
    since: timedelta | datetime | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Check that stored runs agree with their events.

    Rebuilds each run from its events and prints a line for each difference. Exits 1 if there is any.
    """
    from pipeweave.cli.support.direct_database import opened

    if bool(run_ids) == (is_all or since is not None):
        raise click.UsageError("give either runs, or --all or --since")
    with opened(database_url) as database:
        after = database.now() - since if isinstance(since, timedelta) else since
        chosen = (_read(database, each) for each in run_ids) if run_ids else _recent(database, after, limit)
        seen = _Report(as_json)
        for run_id in chosen:
            try:
                differences = _differences(database, run_id)
            except NotFound:
                if run_ids:
                    raise
                continue  # its month was dropped after it was listed
            seen.take(differences)
    seen.close()
    ctx.exit(1 if seen.differing else 0)


def _read(database: Database, reference: str) -> UUID:
    """Read the id of a run (or its beginning), or of a task run, which gives its run: a standalone task has
    only a task run.
    """
    from pipeweave.cli.support.id_arguments import MOST_NAMED, chosen_of
    from pipeweave.orchestrator.diagnosis import verify

    if reference.startswith(f"{ids.TASK_RUN}_"):
        return ids.run_id_of(ids.read(ids.TASK_RUN, reference))
    first, last = ids.span(ids.RUN, reference)
    with verify.snapshot(database) as tx:
        run_ids = verify.runs_between(tx, first, last, MOST_NAMED + 1)
    return ids.read(ids.RUN, chosen_of(ids.RUN, reference, [ids.show(ids.RUN, each) for each in run_ids]))


def _recent(database: Database, since: datetime | None, limit: int | None) -> Iterator[UUID]:
    """Yield the newest runs, without holding a transaction while they are verified."""
    from pipeweave.orchestrator.diagnosis import verify

    before, left = None, limit
    while left != 0:
        size = verify.RUNS_AT_ONCE if left is None else min(left, verify.RUNS_AT_ONCE)
        with verify.snapshot(database) as tx:
            run_ids = list(islice(verify.run_ids(tx, since=since, before=before), size))
        yield from run_ids
        if len(run_ids) < size:
            return
        before, left = run_ids[-1], None if left is None else left - size


def _differences(database: Database, run_id: UUID) -> list[verification.Difference]:
    """List the differences of a run, read in one snapshot."""
    from pipeweave.orchestrator.diagnosis import verify

    with verify.snapshot(database) as tx:
        return verify.run(tx, run_id)


class _Report:
    """Counts the verified runs and prints or collects their differences."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.verified = self.differing = self.differences = 0
        self._kept: list[dict[str, Any]] = []

    def take(self, differences: list[verification.Difference]) -> None:
        self.verified += 1
        self.differing += bool(differences)
        self.differences += len(differences)
        if self.as_json:
            self._kept += map(_document, differences[: max(0, MOST_IN_JSON - len(self._kept))])
            return
        for each in differences:
            click.echo(_line(each))

    def close(self) -> None:
        if self.as_json:
            show_json(
                {
                    "verified": self.verified,
                    "differing": self.differing,
                    "differenceCount": self.differences,
                    "differences": self._kept,
                }
            )
        elif self.differing:
            click.echo(f"{self.differing:,} of {self.verified:,} runs differ from their events", err=True)
        else:
            agree = "1 run agrees with its events"
            if self.verified != 1:
                agree = f"{self.verified:,} runs agree with their events"
            click.echo(agree, err=True)


def _document(each: verification.Difference) -> dict[str, Any]:
    return {
        "run": ids.show(ids.RUN, each.run_id),
        "taskRun": None if each.task_run_id is None else ids.show(ids.TASK_RUN, each.task_run_id),
        "field": each.field,
        "stored": each.stored,
        "rebuilt": each.rebuilt,
    }


def _line(each: verification.Difference) -> str:
    shown = _document(each)
    what = f"{shown['run']} {shown['taskRun'] or '-'} {each.field}"
    return f"{what}: stored {text(each.stored)}, rebuilt {text(each.rebuilt)}"
