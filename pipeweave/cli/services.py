"""`pipeweave services`: list and show services, change where dispatches go, print their worker secrets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeweave import signatures
from pipeweave.cli.support.connection import connected, data_dir_option, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import field, moment, show_answer, show_fields, show_list, when
from pipeweave.cli.support.resource import Resource
from pipeweave.cli.support.secret_key import deployment_secret
from pipeweave.cli.support.tables import Column

if TYPE_CHECKING:
    from pipeweave.client import Client


@click.group(cls=Resource)
def services() -> None:
    """List, show and change services.

    Without a command, it lists them.
    """


@services.command("list")
@json_option
@connected
def list_services(client: Client, as_json: bool) -> None:
    """List the services that registered tasks."""
    cells = {
        Column("service"): field("id"),
        Column("kind", drop=2): field("kind"),
        Column("version", drop=1): field("version"),
        Column("status"): _status,
        Column("processes", drop=4): _processes,
        moment("last seen (UTC)"): lambda each: when(each.get("lastSeen") or each.get("lastHeartbeat")),
        Column("address", drop=3): field("baseUrl"),
    }
    none = "No services yet. `pipeweave worker --app YOUR_MODULE` registers one."
    show_list("services", client.services(), cells, as_json=as_json, none=none, client=client)


@services.command()
@click.argument("service")
@json_option
@connected
def show(client: Client, service: str, as_json: bool) -> None:
    """Show a service and its instances.

    Dispatches to an HTTP service go to one of its instances that take them. One that refused a dispatch, or
    did not answer, is set aside and asked from time to time whether it is back.
    """
    show_answer(client.service(service), as_json, _show)


@services.command(
    "set",
    epilog=examples(
        "pipeweave services set resizer --base-url http://10.0.0.7:3001",
        "pipeweave services set resizer --disable",
    ),
)
@click.argument("service")
@click.option(
    "--base-url",
    metavar="URL|peer|registered",
    help="Where dispatches go: a URL, the address that instances register from (peer), or the URL that they"
    " register (registered).",
)
@click.option("--disable/--enable", "is_disabled", default=None, help="Dispatch nothing to it, or again.")
@json_option
@connected
def set_service(
    client: Client, service: str, base_url: str | None, is_disabled: bool | None, as_json: bool
) -> None:
    """Change where dispatches to an HTTP service go, or switch it off.

    Attempts of a service that is switched off fail and are retried; `pipeweave pause` lets them wait.
    """
    if base_url is None and is_disabled is None:
        raise click.UsageError("give --base-url, --disable or --enable")
    show_answer(client.change_service(service, base_url=base_url, is_disabled=is_disabled), as_json, _show)


@services.command()
@click.argument("service")
@click.option("--tenant", help="The tenant of the service. Defaults to PIPEWEAVE_TENANT.")
@data_dir_option
@json_option
def secret(service: str, tenant: str | None, data_dir: Path | None, as_json: bool) -> None:
    """Print the worker secret of a service.

    An HTTP worker reads it from PIPEWEAVE_SECRET_KEY: it opens storage tokens and proves that a dispatch
    comes from its orchestrator. It is computed here, from the PIPEWEAVE_SECRET_KEY of the environment or of
    the stack, and from WORKER_SECRETS.
    """
    deployment = deployment_secret(data_dir)
    value = signatures.worker_secret(
        deployment.key, tenant or deployment.tenant, service, is_shared=deployment.is_shared_by_workers
    )
    show_answer(
        {"serviceId": service, "secret": value, "isShared": deployment.is_shared_by_workers}, as_json, value
    )


def _show(service: Mapping[str, Any]) -> None:
    is_http = service["kind"] == "http"
    shown = {
        "service": service["id"],
        "kind": service["kind"],
        "version": service["version"],
        "status": _status(service),
        "last seen (UTC)": when(service["lastSeen"]),
        "tasks": service["taskCount"],
        "workers": None if is_http else service["workerCount"],
        "dispatches go to": (service["baseUrlOverride"] or "the registered URLs") if is_http else None,
        "storage access": service["storageAccess"] if is_http else None,
        "token format": service["tokenFormat"] if is_http else None,
        "switched off (UTC)": service["disabledAt"] and when(service["disabledAt"]),
    }
    show_fields(shown.items())
    if is_http:
        click.echo()
        _show_instances(service["instances"])


def _show_instances(instances: list[Mapping[str, Any]]) -> None:
    cells = {
        Column("instance"): field("baseUrl"),
        Column("version", drop=2): field("version"),
        Column("state"): lambda each: "set aside" if each["setAsideAt"] else "ready",
        moment("last seen (UTC)", drop=1): lambda each: when(each["lastSeenAt"]),
        Column("refusals", drop=3): field("refusals"),
        Column("last error", wraps=True): field("lastError"),
        Column("tasks", wraps=True, drop=4): field("tasks"),
    }
    show_list("instances", instances, cells, as_json=False, none="No instance is registered.")


def _status(service: Mapping[str, Any]) -> str:
    return "switched off" if service.get("disabledAt") else str(service["status"])


def _processes(service: Mapping[str, Any]) -> str:
    """Its worker processes, or how many of its instances take dispatches."""
    if service["kind"] == "http":
        return f"{service['readyInstances']} of {service['instanceCount']}"
    return str(service["workerCount"])
