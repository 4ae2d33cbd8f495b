"""`pipeweave db downgrade`: take migrations back, or show what that would drop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support.connection import json_option, with_database_or_url
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import show_json

if TYPE_CHECKING:
    from pipeweave.orchestrator.deployment import downgrade as schema


@click.command(epilog=examples("pipeweave db downgrade --to -1 --dry-run"))
@click.option(
    "--to", "target", required=True, metavar="REV|-N|base", help="The last migration that stays, or -N."
)
@click.option("--dry-run", is_flag=True, help="Only print the steps, and what each drops.")
@click.option("--sql", "with_sql", is_flag=True, help="With --dry-run: print the statements.")
@click.option("--yes", is_flag=True, help="Really drop it.")
@click.option("--force", is_flag=True, help="Although processes use the database.")
@json_option
@with_database_or_url
def downgrade(
    database_url: str, target: str, dry_run: bool, with_sql: bool, yes: bool, force: bool, as_json: bool
) -> None:
    """Take the newest migrations back, one transaction each.

    What they added is dropped, with what it holds. Use the version of PipeWeave that migrated the database:
    an older one does not know the steps.
    """
    from pipeweave.orchestrator.deployment import downgrade as schema

    if not dry_run and not yes:
        raise click.UsageError("this drops columns and tables: look with --dry-run, confirm with --yes")
    steps = schema.plan(database_url, target)
    if not dry_run and steps:
        if not force:
            schema.require_no_process(database_url)
        schema.take(database_url, steps, done=_silent if as_json else _tell)
    if as_json:
        show_json({"isDone": not dry_run, "steps": [_document(each) for each in steps]})
    elif not steps:
        click.echo("Nothing to take back.")
    elif dry_run:
        click.echo(
            "\n".join(line for each in steps for line in (each.sql if with_sql else _text(each)).splitlines())
        )


def _tell(revision: str) -> None:
    click.echo(f"Took back {revision}")


def _silent(revision: str) -> None:
    """JSON alone is printed."""


def _text(step: schema.DowngradeStep) -> str:
    from pipeweave.orchestrator.deployment import downgrade as schema

    lines = [f"{step.revision}: takes back «{step.summary}»"]
    for table, rows in step.tables.items():
        number = f"more than {schema.MOST_COUNTED:,}" if rows > schema.MOST_COUNTED else f"{rows:,}"
        lines.append(f"  drops table {table} ({number} rows)")
    lines += [f"  drops column {each}" for each in step.columns]
    lines += [f"  deletes from {each}" for each in step.deleted]
    return "\n".join(lines)


def _document(step: schema.DowngradeStep) -> dict[str, Any]:
    return {
        "revision": step.revision,
        "summary": step.summary,
        "tables": [{"name": name, "rows": rows} for name, rows in step.tables.items()],
        "columns": step.columns,
        "deleted": step.deleted,
        "sql": step.sql,
    }
