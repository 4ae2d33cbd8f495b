"""`pipeweave tenant`: list and show tenants, limit, disable, enable, export and delete them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pipeweave.cli.support.connection import connected, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import (
    field,
    moment,
    show_answer,
    show_fields,
    show_list,
    text,
    when,
)
from pipeweave.cli.support.resource import Resource
from pipeweave.cli.support.tables import Column
from pipeweave.cli.support.tenant_folder import TenantFolder

if TYPE_CHECKING:
    from pipeweave.client import Client, Document


NONE = "none"
Decorated = TypeVar("Decorated", bound=Callable[..., Any])


if TYPE_CHECKING:
    _Number = click.ParamType[int | str]
else:
    # Generic from click 8.4 on.
    _Number = click.ParamType


class _Quota(_Number):
    """A number, or `none` for any number."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if isinstance(value, int) or value == NONE:
            return value if isinstance(value, int) else NONE
        if not (isinstance(value, str) and value.isascii() and value.isdecimal()):
            self.fail(f"{value!r} is neither a number from 0 on nor `{NONE}`.", param, ctx)
        return int(value)


QUOTA = _Quota()


@click.group(cls=Resource)
def tenant() -> None:
    """List, show, limit, disable, export and delete tenants.

    Without a command, it lists them.
    """


@tenant.command("list")
@json_option
@connected
def list_tenants(client: Client, as_json: bool) -> None:
    """List the tenants that the token may enter."""
    cells: dict[Column, Callable[[Mapping[str, Any]], Any]] = {
        Column("tenant"): field("id"),
        Column("max active runs"): lambda each: each["maxActiveRuns"] or "unlimited",
        moment("since (UTC)", drop=1): lambda each: when(each["createdAt"]),
    }
    none = "No tenants yet. One begins with its first registration, trigger or limit."
    show_list("tenants", client.tenants(), cells, as_json=as_json, none=none)


@tenant.command(epilog=examples("pipeweave tenant show shop"))
@click.argument("name")
@json_option
@connected
def show(client: Client, name: str, as_json: bool) -> None:
    """Show a tenant with its limit and how much of it is used."""
    show_answer(client.tenant(name), as_json, _show)


@tenant.command(
    epilog=examples("pipeweave tenant limit shop --max-active-runs 50", "pipeweave tenant limit shop --none")
)
@click.argument("name")
@click.option(
    "--max-active-runs", metavar="N", type=click.IntRange(min=1), help="Allow at most this many active runs."
)
@click.option("--none", "is_none", is_flag=True, help="Remove the limit of active runs.")
@json_option
@connected
def limit(client: Client, name: str, max_active_runs: int | None, is_none: bool, as_json: bool) -> None:
    """Limit the active runs of a tenant.

    Creates the tenant if it is new.
    """
    if is_none == (max_active_runs is not None):
        raise click.UsageError("give --max-active-runs or --none, one of them")
    client.set_tenant(name, max_active_runs)
    show_answer(client.tenant(name), as_json, _show)


def _quota(what: str) -> Callable[[Decorated], Decorated]:
    name = what.replace(" ", "-")
    return click.option(
        f"--{name}", metavar="N", type=QUOTA, help=f"Allow at most so many {what}; or `none`."
    )


@tenant.command(
    epilog=examples(
        "pipeweave tenant limits shop",
        "pipeweave tenant limits shop --runs-per-day 10000 --request-rate 600/m",
        "pipeweave tenant limits shop --runs-per-day none",
    )
)
@click.argument("name")
@_quota("runs per day")
@_quota("open task runs")
@_quota("stored bytes")
@_quota("schedules")
@click.option("--request-rate", metavar="RATE", help="Serve at most so many requests, as 600/m; or `none`.")
@click.option("--weight", metavar="N", type=click.IntRange(1, 100), help="Give it so many turns.")
@json_option
@connected
def limits(client: Client, name: str, as_json: bool, **wanted: Any) -> None:
    """Show or set the quotas of a tenant, and its weight.

    What is not named stays as it is. Setting takes an operator's token, which is valid for all tenants.
    """
    if changes := {key: value for key, value in wanted.items() if value is not None}:
        before = _quotas_before(client, name)
        kept = {key: before.get(field) for key, field in _QUOTAS.items()}
        changed = {key: None if value == NONE else value for key, value in changes.items()}
        client.set_tenant_limits(name, **{**kept, "weight": before.get("weight", 1), **changed})
    show_answer(client.tenant_limits(name), as_json, _show_limits)


def _quotas_before(client: Client, name: str) -> Document:
    from pipeweave.errors import NotFound

    try:
        return client.tenant_limits(name)
    except NotFound:  # the first limits make the tenant
        return {}


@tenant.command(epilog=examples("pipeweave tenant disable shop --reason 'unpaid since May'"))
@click.argument("name")
@click.option("--reason", metavar="TEXT", help="Who is refused reads it.")
@json_option
@connected
def disable(client: Client, name: str, reason: str | None, as_json: bool) -> None:
    """Begin nothing new of a tenant, and refuse its requests.

    What is under way ends; `pipeweave pause` stops it, too. Operators are still served.
    """
    show_answer(client.disable_tenant(name, reason), as_json, _show)


@tenant.command(epilog=examples("pipeweave tenant enable shop"))
@click.argument("name")
@json_option
@connected
def enable(client: Client, name: str, as_json: bool) -> None:
    """Let a disabled tenant go on.

    What its schedules missed follows their missed policy.
    """
    show_answer(client.enable_tenant(name), as_json, _show)


@tenant.command(epilog=examples("pipeweave tenant export shop --output shop-2026-11"))
@click.argument("name")
@click.option(
    "-o",
    "--output",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    required=True,
    help="New folder for a file of each table, and manifest.json.",
)
@json_option
@connected
def export(client: Client, name: str, output: Path, as_json: bool) -> None:
    """Write all rows of a tenant into a new folder.

    All are of one moment. Objects are listed, not copied; secrets are left out. The folder is there when
    every file has the hash that the server says; what an interrupted export left is begun anew.
    """
    folder = TenantFolder.new(output)
    with folder.writing():
        for page in client.export_tenant(name):
            folder.take(page.lines)
    manifest = folder.finish()
    show_answer(manifest, as_json, _show_export)


def _show_export(manifest: Mapping[str, Any]) -> None:
    filled = {table: each["rows"] for table, each in manifest["tables"].items() if each["rows"]}
    show_fields((table, f"{rows:,}") for table, rows in filled.items())
    for each in manifest["leftOut"]:
        click.echo(text(f"left out: {each['what']} ({each['why']})"), err=True)


@tenant.command(epilog=examples("pipeweave tenant delete shop --yes", "pipeweave tenant deletion shop"))
@click.argument("name")
@click.option("--yes", is_flag=True, help="Really delete all of it.")
@json_option
@connected
def delete(client: Client, name: str, yes: bool, as_json: bool) -> None:
    """Disable a tenant at once, and delete all of it.

    Its runs, definitions, uploads and tokens go within minutes, its objects with the next sweep of the
    storage. The audit stays. Its workers must be stopped before.
    """
    if not yes:
        raise click.UsageError(f"this deletes every run, pipeline and token of {name}; confirm with --yes")
    show_answer(client.delete_tenant(name), as_json, _show_deletion)


@tenant.command(epilog=examples("pipeweave tenant deletion shop"))
@click.argument("name")
@json_option
@connected
def deletion(client: Client, name: str, as_json: bool) -> None:
    """Show how far the deletion of a tenant is."""
    show_answer(client.tenant_deletion(name), as_json, _show_deletion)


def _show_deletion(shown: Document) -> None:
    show_fields(
        (
            ("tenant", shown["tenantId"]),
            ("requested (UTC)", when(shown["requestedAt"])),
            ("requested by", shown["requestedBy"]),
            ("deleted runs", f"{shown['deletedRuns']:,}"),
            ("deleted rows", f"{shown['deletedRows']:,}"),
            ("finished (UTC)", when(shown["finishedAt"]) if shown["finishedAt"] else "not yet"),
        )
    )


_QUOTAS: Mapping[str, str] = {
    "runs_per_day": "runsPerDay",
    "open_task_runs": "openTaskRuns",
    "stored_bytes": "storedBytes",
    "schedules": "schedules",
    "request_rate": "requestRate",
}


def _show_limits(shown: Document) -> None:
    used = shown["used"]
    counted = (
        ("runs per day", shown["runsPerDay"], used["runsToday"]),
        ("open task runs", shown["openTaskRuns"], used["openTaskRuns"]),
        ("stored bytes", shown["storedBytes"], used["storedBytes"]),
        ("schedules", shown["schedules"], used["schedules"]),
    )
    show_fields(
        (
            ("tenant", shown["id"]),
            *((name, _used(most, number)) for name, most, number in counted),
            ("request rate", shown["requestRate"] or "unlimited"),
            ("weight", shown["weight"]),
        )
    )


def _used(most: int | None, used: int | None) -> str:
    if most is None:
        return "unlimited" if used is None else f"unlimited ({used:,} used)"
    return f"{most:,} (not summed up yet)" if used is None else f"{most:,} ({used:,} used)"


@tenant.command(
    "signed-pipelines",
    epilog=examples(
        "pipeweave tenant signed-pipelines shop --only", "pipeweave tenant signed-pipelines shop --all"
    ),
)
@click.argument("name")
@click.option(
    "--only/--all", "only_signed", required=True, help="Take only pipelines of signed bundles, or all."
)
@json_option
@connected
def signed_pipelines(client: Client, name: str, only_signed: bool, as_json: bool) -> None:
    """Say which pipelines a tenant takes.

    Either all, or only those that signed bundles bring. What is stored stays. It takes an administrator's
    token.
    """
    client.take_only_signed(name, only_signed)
    show_answer(client.tenant(name), as_json, _show)


def _show(stored_tenant: Document) -> None:
    disabled_at = stored_tenant.get("disabledAt")
    shown = {
        "tenant": stored_tenant["id"],
        "disabled since (UTC)": disabled_at and when(disabled_at),
        "disabled by": stored_tenant.get("disabledBy"),
        "reason": stored_tenant.get("disabledReason"),
        "max active runs": stored_tenant["maxActiveRuns"] or "unlimited",
        "active runs": stored_tenant["activeRuns"],
        "queued runs": stored_tenant["pendingRuns"],
        "paused since (UTC)": stored_tenant["pausedAt"] and when(stored_tenant["pausedAt"]),
        "pause reason": stored_tenant["pauseReason"],
        "pipelines": "only of signed bundles" if stored_tenant.get("takesOnlySigned") else "all",
        "since (UTC)": when(stored_tenant["createdAt"]),
    }
    show_fields(shown.items())
