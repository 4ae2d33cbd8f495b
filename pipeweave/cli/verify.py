"""`pipeweave verify`: check that the rows of runs agree with their events, and restore those that differ."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from pipeweave import ids
from pipeweave.cli.support.connection import json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.history_place import HistoryPlace, with_place
from pipeweave.cli.support.lifetime import Lifetime
from pipeweave.cli.support.rendering import show_json, text
from pipeweave.errors import Conflict, NotFound

if TYPE_CHECKING:
    from pipeweave.orchestrator.diagnosis import repairing
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
@click.option("--repair", is_flag=True, help="Say which differences the events can undo.")
@click.option("--apply", "is_applied", is_flag=True, help="With --repair: restore the rows.")
@click.option(
    "--dead-letters",
    "has_letters",
    is_flag=True,
    help="With --repair: dead letters that are gone, too, also purged ones.",
)
@json_option
@with_place
@click.pass_context
def verify(
    ctx: click.Context,
    place: HistoryPlace,
    run_ids: tuple[str, ...],
    is_all: bool,
    since: timedelta | datetime | None,
    limit: int | None,
    repair: bool,
    is_applied: bool,
    has_letters: bool,
    as_json: bool,
) -> None:
    """Check that stored runs agree with their events.

    Rebuilds each run from its events and prints a line for each difference. Exits 1 if there is any.

    With --repair, each line says whether the events determine the row; with --apply, those rows are restored,
    one transaction for each run. What events do not have, such as a lost result, is left. The row of a run
    that is lost is made anew if its input is known, by its hash or from an archive. Exits 1 if a difference
    is left.
    """
    from pipeweave.cli.support.direct_database import opened

    if bool(run_ids) == (is_all or since is not None):
        raise click.UsageError("give either runs, or --all or --since")
    if is_applied and not repair:
        raise click.UsageError("--apply belongs to --repair")
    if has_letters and not repair:
        raise click.UsageError("--dead-letters belongs to --repair")
    with opened(place.database_url) as database:
        after = database.now() - since if isinstance(since, timedelta) else since
        chosen = (_read(database, each) for each in run_ids) if run_ids else _recent(database, after, limit)
        seen = _Report(as_json)
        for run_id in chosen:
            try:
                if repair:
                    outcome = _repaired(
                        database, place, run_id, is_applied=is_applied, has_letters=has_letters
                    )
                    seen.take_repair(outcome, is_applied=is_applied)
                    continue
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
    if first == last:
        return first  # also one whose row is lost
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


def _repaired(
    database: Database, place: HistoryPlace, run_id: UUID, *, is_applied: bool, has_letters: bool
) -> repairing.RunRepair:
    from pipeweave.cli.support import audited
    from pipeweave.orchestrator.diagnosis import repairing
    from pipeweave.orchestrator.retention import archive

    note = audited.note("verify", ids.show(ids.RUN, run_id)) if is_applied else None
    try:
        return repairing.repair(database, run_id, note, has_letters=has_letters)
    except Conflict:
        # Its row is lost. Storage is read without a transaction, and only then.
        archived = archive.find_run(place.storage, run_id)
        if archived is None:
            raise
    return repairing.repair(database, run_id, note, archived=archived, has_letters=has_letters)


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

    def take_repair(self, outcome: repairing.RunRepair, *, is_applied: bool) -> None:
        """Take what was, or would be, restored of a run."""
        self.verified += 1
        self.differing += bool(outcome.left if is_applied else (outcome.left or outcome.restored))
        self.differences += len(outcome.restored) + len(outcome.left)
        done = "restored" if is_applied else "can be restored"
        said = [(each, _with_unset(each, done, outcome.unset)) for each in outcome.restored]
        said += [(each, f"left: {why}") for each, why in outcome.left]
        if self.as_json:
            room = max(0, MOST_IN_JSON - len(self._kept))
            self._kept += [{**_document(each), "repair": what} for each, what in said[:room]]
            return
        for each, what in said:
            click.echo(f"{_line(each)}; {what}")

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


def _with_unset(each: verification.Difference, done: str, unset: str) -> str:
    return f"{done}, {unset}" if unset and each.task_run_id is None and each.field == "row" else done


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
