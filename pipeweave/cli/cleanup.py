"""`pipeweave db cleanup`: apply the retention rules now and print what was deleted."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from pipeweave import ids
from pipeweave.cli.support import audited
from pipeweave.cli.support.connection import json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.history_place import HistoryPlace, with_place
from pipeweave.cli.support.lifetime import Lifetime
from pipeweave.cli.support.rendering import show_json
from pipeweave.errors import InvalidInput
from pipeweave.settings import Settings

if TYPE_CHECKING:
    from pipeweave.orchestrator.retention import Policy, drop_months, expiry


@click.command(epilog=examples("pipeweave db cleanup --older-than 90d --dry-run"))
@click.option(
    "--older-than",
    type=Lifetime(),
    help="Drop months that ended longer ago than this. Defaults to RUN_RETENTION_DAYS.",
)
@click.option(
    "--dlq-retention-days",
    metavar="N",
    type=click.IntRange(1, 36_500),
    help="Delete dead letters that failed more days ago than this. Defaults to DLQ_RETENTION_DAYS.",
)
@click.option("--no-archive", is_flag=True, help="Drop months without writing them to storage first.")
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
@json_option
@with_place
@click.pass_context
def cleanup(
    ctx: click.Context,
    place: HistoryPlace,
    older_than: timedelta | datetime | None,
    dlq_retention_days: int | None,
    no_archive: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Archive and drop old months now.

    Also deletes old dead letters, redrives, idempotency claims, workers and rows of deleted uploads, as beat
    does. Exits 1 if a due month could not be dropped because its tables are in use.
    """
    from pipeweave.cli.support.direct_database import opened
    from pipeweave.orchestrator.retention import drop_months, expiry
    from pipeweave.orchestrator.security import audit

    with opened(place.database_url, pool_size=2) as database:
        age = database.now() - older_than if isinstance(older_than, datetime) else older_than
        policy = _policy(place.settings, age, dlq_retention_days, is_archived=not no_archive)
        drop_months.check_clock(database)
        if not dry_run:
            note = audited.note("db cleanup", details={"olderThan": older_than and str(older_than)})
            audit.begin_many(database, note)
        done = drop_months.run_once(database, place.storage, policy, is_rehearsal=dry_run)
        purged = expiry.count_expired(database, policy) if dry_run else expiry.purge_all(database, policy)
        if not dry_run:
            dropped = sum(each.outcome is drop_months.MonthOutcome.DROPPED for each in done)
            audit.end_many(database, note, {"months": dropped, "rows": purged.total})
    if as_json:
        show_json(
            {
                "dryRun": dry_run,
                "storage": place.storage_name if policy.is_archived else None,
                "months": [_retired(each) for each in done],
                "deleted": {
                    "deadLetters": purged.dead_letters,
                    "idempotencyClaims": purged.idempotency_claims,
                    "workers": purged.workers,
                    "redrives": purged.redrives,
                    "uploads": purged.uploads,
                    "scheduleFires": purged.fires,
                    "triggerFires": purged.of_triggers,
                    "enqueuedRuns": purged.enqueued_runs,
                    "sessions": purged.sessions,
                    "loginLinks": purged.login_links,
                    "audit": purged.audit,
                },
            }
        )
    else:
        for each in done:
            click.echo(_line(each, place.storage_name))
        if policy.runs is None:
            click.echo("Runs are kept forever; set RUN_RETENTION_DAYS or --older-than to drop old months.")
        click.echo(_deleted(purged, dry_run=dry_run))
    ctx.exit(1 if any(each.outcome is drop_months.MonthOutcome.IN_USE for each in done) else 0)


def _policy(
    settings: Settings, older_than: timedelta | None, dlq_days: int | None, *, is_archived: bool
) -> Policy:
    from pipeweave.orchestrator.retention import Policy

    policy = Policy.of(settings)
    if older_than is not None and older_than < timedelta():
        raise InvalidInput("--older-than is in the future", hint="give a duration such as 90d")
    return replace(
        policy,
        runs=policy.runs if older_than is None else older_than,
        is_archived=policy.is_archived and is_archived,
        dead_letters=policy.dead_letters if dlq_days is None else timedelta(days=dlq_days),
    )


def _retired(result: drop_months.MonthResult) -> dict[str, Any]:
    return {
        "month": str(result.month),
        "outcome": result.outcome.value,
        **({} if result.counts is None else result.counts.to_json()),
        "archive": result.archive,
        "activeRuns": [ids.show(ids.RUN, run) for run in result.active_runs],
    }


def _line(result: drop_months.MonthResult, storage: str) -> str:
    from pipeweave.orchestrator.retention import drop_months

    match result.outcome:
        case drop_months.MonthOutcome.DROPPED:
            where = f"; {result.archive} in {storage}" if result.archive else ", not archived"
            return f"{result.month}  dropped: {_counts(result)}{where}"
        case drop_months.MonthOutcome.DUE:
            return f"{result.month}  would be dropped: {_counts(result)}"
        case drop_months.MonthOutcome.ACTIVE:
            return f"{result.month}  kept: active runs {_named(result)}"
        case drop_months.MonthOutcome.IN_USE:
            return f"{result.month}  kept: its tables are in use; try again"


def _counts(result: drop_months.MonthResult) -> str:
    counts = result.counts.to_json() if result.counts else {}
    words = {"runs": "runs", "taskRuns": "task runs"}
    words |= {each: each for each in ("attempts", "events", "signals")}
    return ", ".join(f"{counts.get(name, 0):,} {word}" for name, word in words.items())


def _named(result: drop_months.MonthResult) -> str:
    return ", ".join(ids.show(ids.RUN, run) for run in result.active_runs)


def _deleted(purged: expiry.Purged, *, dry_run: bool) -> str:
    verb = "Would delete" if dry_run else "Deleted"
    claims = f"{purged.idempotency_claims:,} idempotency claims"
    others = f"{purged.workers:,} workers, {purged.redrives:,} redrives, {purged.uploads:,} uploads"
    others += f", {purged.fires:,} fires of schedules, {purged.of_triggers:,} of triggers"
    others += f", {purged.enqueued_runs:,} enqueued runs, {purged.sessions:,} sessions"
    others += f", {purged.audit:,} rows of the audit"
    return f"{verb} {purged.dead_letters:,} dead letters, {claims}, {others}."
