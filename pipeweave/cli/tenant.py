"""`pipeweave tenant`: list and show tenants, limit them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support.connection import connected, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import (
    field,
    moment,
    show_answer,
    show_fields,
    show_list,
    when,
)
from pipeweave.cli.support.resource import Resource
from pipeweave.cli.support.tables import Column

if TYPE_CHECKING:
    from pipeweave.client import Client, Document


@click.group(cls=Resource)
def tenant() -> None:
    """List, show and limit the tenants of the token.

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


def _show(stored_tenant: Document) -> None:
    shown = {
        "tenant": stored_tenant["id"],
        "max active runs": stored_tenant["maxActiveRuns"] or "unlimited",
        "active runs": stored_tenant["activeRuns"],
        "queued runs": stored_tenant["pendingRuns"],
        "paused since (UTC)": stored_tenant["pausedAt"] and when(stored_tenant["pausedAt"]),
        "pause reason": stored_tenant["pauseReason"],
        "since (UTC)": when(stored_tenant["createdAt"]),
    }
    show_fields(shown.items())
