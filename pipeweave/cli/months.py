"""`pipeweave db partitions | archive`: list the months of history in the tables, archive them to storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pipeweave import ids
from pipeweave.cli.support.connection import json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.history_place import HistoryPlace, with_place
from pipeweave.cli.support.rendering import show_json, show_table
from pipeweave.cli.support.tables import Column
from pipeweave.errors import Conflict, NotFound

if TYPE_CHECKING:
    from pipeweave.orchestrator.domain import Month
    from pipeweave.orchestrator.retention import Policy, default_partition, month_status
    from pipeweave.orchestrator.retention import archive as archives
    from pipeweave.orchestrator.store import Database, Transaction

MOST_COUNTED = 10_000
# Table -> its name in JSON.
_TABLES = {"runs": "runs", "task_runs": "taskRuns"}
_TABLES |= {each: each for each in ("attempts", "events", "signals")}


@click.command()
@json_option
@with_place
def partitions(place: HistoryPlace, as_json: bool) -> None:
    """List the months of history, and when each is dropped."""
    from pipeweave.cli.support.direct_database import opened
    from pipeweave.orchestrator.retention import Policy, default_partition, month_status, partitions

    policy = Policy.of(place.settings)
    with opened(place.database_url) as database, database.transaction() as tx:
        months = [_month(tx, each, policy) for each in month_status.months_on_disk(tx)]
        misplaced = [
            _misplaced(each) for each in default_partition.count_misplaced(tx, partitions.PARTITIONED)
        ]
    if as_json:
        days = place.settings.run_retention_days
        show_json({"months": months, "default": misplaced, "retentionDays": days})
        return
    columns = (
        "month",
        "runs",
        "task runs",
        "attempts",
        "events",
        "signals",
        "size",
        "active",
        Column("policy", wraps=True),
    )
    show_table(columns, [_cells(each) for each in months])
    _warn_of_misplaced_rows(misplaced)


def _month(tx: Transaction, on_disk: month_status.MonthOnDisk, policy: Policy) -> dict[str, Any]:
    from pipeweave.orchestrator.domain import iso
    from pipeweave.orchestrator.retention import month_status

    run_count = len(month_status.active_runs(tx, on_disk.month, MOST_COUNTED))
    counts = month_status.count_rows(tx, on_disk)
    due_at = policy.due_at(on_disk.month)
    return {
        "month": str(on_disk.month),
        **{shown: counts.get(table, (0, True))[0] for table, shown in _TABLES.items()},
        "estimated": [shown for table, shown in _TABLES.items() if table in counts and not counts[table][1]],
        "bytes": on_disk.size,
        "activeRuns": run_count,
        "policy": _word(on_disk, run_count, is_due=policy.is_due(on_disk.month, tx.now)),
        "dueAt": iso(due_at),
    }


def _word(on_disk: month_status.MonthOnDisk, active: int, *, is_due: bool) -> str:
    if on_disk.is_leaving:
        return "leaving"
    if not is_due:
        return "kept"
    return "active" if active else "due"


def _cells(month: dict[str, Any]) -> tuple[Any, ...]:
    policy = month["policy"]
    if policy == "kept" and month["dueAt"]:
        policy = f"kept until {month['dueAt'][:10]}"
    counts = [_count(month, name) for name in _TABLES.values()]
    return (month["month"], *counts, _size(month["bytes"]), f"{month['activeRuns']:,}", policy)


def _count(month: dict[str, Any], name: str) -> str:
    about = "about " if name in month["estimated"] else ""
    return f"{about}{month[name]:,}"


def _size(number: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:,} {unit}"
        number //= 1024
    return f"{number:,} GiB"


def _misplaced(each: default_partition.MisplacedRows) -> dict[str, Any]:
    return {"month": str(each.month), "table": each.parent, "rows": each.rows}


def _warn_of_misplaced_rows(misplaced: list[dict[str, Any]]) -> None:
    for each in misplaced:
        click.echo(
            f"{each['table']}_default holds {each['rows']:,} rows of {each['month']}, never dropped;"
            " `pipeweave db migrate` moves them once no run of that month is active",
            err=True,
        )


@click.command(epilog=examples("pipeweave db archive 2026-03", "pipeweave db archive --list"))
@click.argument("month", required=False)
@click.option("--list", "is_list", is_flag=True, help="List the existing archives.")
@json_option
@with_place
def archive(place: HistoryPlace, month: str | None, is_list: bool, as_json: bool) -> None:
    """Archive a month, or list the archives.

    MONTH is written like 2026-03; it is not dropped.
    """
    from pipeweave.orchestrator.domain import Month
    from pipeweave.orchestrator.retention import archive as archives

    if (month is None) != is_list:
        raise click.UsageError("give either a month or --list")
    if month is None:
        _show_archives(archives.list_archives(place.storage), as_json)
        return
    manifest = _archive(place, Month.parse(month))
    if as_json:
        show_json({**manifest.to_json(), "storage": place.storage_name})
    else:
        runs = f"{manifest.counts.runs:,} runs"
        click.echo(f"{manifest.month}  archived: {runs}; {manifest.path} in {place.storage_name}")


def _archive(place: HistoryPlace, month: Month) -> archives.Manifest:
    from pipeweave.cli.support.direct_database import opened
    from pipeweave.orchestrator.retention import archive as archives
    from pipeweave.orchestrator.retention import drop_months

    with opened(place.database_url, pool_size=2) as database:
        _check(database, month)
        with drop_months.alone(database):
            return archives.archive_month(database, place.storage, month)


def _check(database: Database, month: Month) -> None:
    from pipeweave.orchestrator.retention import month_status

    with database.transaction() as tx:
        known = [each.month for each in month_status.months_on_disk(tx)]
        now, run_ids = tx.now, month_status.active_runs(tx, month)
    if month not in known:
        there = ", ".join(map(str, known)) or "none"
        raise NotFound(f"there is no history of {month}", hint=f"months: {there}", month=str(month))
    if month.end > now:
        raise Conflict(f"{month} is not over yet", hint="a month is archived when it has ended")
    if run_ids:
        shown = ", ".join(ids.show(ids.RUN, each) for each in run_ids)
        raise Conflict(f"runs of {month} are active: {shown}", hint="wait for them, or cancel them")


def _show_archives(manifests: list[archives.Manifest], as_json: bool) -> None:
    if as_json:
        show_json({"archives": [each.to_json() for each in manifests]})
        return
    columns = ("month", "runs", "size", Column("parts", drop=2), Column("archived", drop=1), "manifest")
    rows = [
        (
            str(each.month),
            f"{each.counts.runs:,}",
            _size(sum(part.size for part in each.parts)),
            len(each.parts),
            each.archived_at,
            each.path,
        )
        for each in manifests
    ]
    show_table(columns, rows)
