"""`pipeweave db`: migrate the schema, show its version, reset it, and manage the months of history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pipeweave.cli.cleanup import cleanup
from pipeweave.cli.db_downgrade import downgrade
from pipeweave.cli.db_stats import stats
from pipeweave.cli.months import archive, partitions
from pipeweave.cli.support.connection import json_option, with_database_or_url
from pipeweave.cli.support.rendering import show_json

if TYPE_CHECKING:
    from pipeweave.orchestrator.deployment import schema_check


@click.group()
def db() -> None:
    """Migrate the schema; list, archive and drop old months."""


for each in (partitions, cleanup, archive, stats, downgrade):
    db.add_command(each)


@db.command()
@json_option
@with_database_or_url
def migrate(database_url: str, as_json: bool) -> None:
    """Run the pending migrations.

    Safe to run from several places at once.
    """
    _migrate(database_url, as_json)


@db.command()
@json_option
@with_database_or_url
def init(database_url: str, as_json: bool) -> None:
    """Create the schema; the same as `migrate`."""
    _migrate(database_url, as_json)


def _migrate(database_url: str, as_json: bool) -> None:
    from pipeweave.orchestrator.deployment import migrate, schema_check

    before = schema_check.status(database_url)
    after = migrate.upgrade(database_url)
    if as_json:
        _show_json(after, ran=before.pending)
    elif before.is_current:
        click.echo(f"The schema is current: {after.current}")
    else:
        click.echo(f"Migrated to {after.current} ({', '.join(before.pending)})")


@db.command()
@json_option
@with_database_or_url
@click.pass_context
def status(ctx: click.Context, database_url: str, as_json: bool) -> None:
    """Show the version of the schema.

    Exits 1 if migrations are pending.
    """
    from pipeweave.orchestrator.deployment import schema_check

    state = schema_check.status(database_url)
    if as_json:
        _show_json(state)
    elif state.is_current:
        click.echo(f"The schema is current: {state.current}")
    else:
        click.echo(f"The schema is at {state.current or 'no version'}; pending: {', '.join(state.pending)}")
    ctx.exit(0 if state.is_current else 1)


@db.command()
@click.option("--yes", is_flag=True, help="Really delete everything.")
@json_option
@with_database_or_url
def reset(database_url: str, yes: bool, as_json: bool) -> None:
    """Delete everything and create the schema again."""
    from pipeweave.orchestrator.deployment import migrate

    if not yes:
        raise click.UsageError("this deletes every pipeline, run and token; confirm with --yes")
    after = migrate.reset(database_url)
    if as_json:
        _show_json(after)
    else:
        click.echo(f"Everything is deleted; the schema was created again: {after.current}")


def _show_json(status: schema_check.SchemaStatus, ran: tuple[str, ...] = ()) -> None:
    show_json(
        {
            "current": status.current,
            "latest": status.latest,
            "pending": status.pending,
            "isCurrent": status.is_current,
            "ran": ran,
        }
    )
