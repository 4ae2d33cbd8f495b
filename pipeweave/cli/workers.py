"""`pipeweave workers`: list and show workers, drain and resume them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support import id_arguments
from pipeweave.cli.support.connection import connected, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import (
    field,
    moment,
    show_fields,
    show_json,
    show_list,
    when,
)
from pipeweave.cli.support.resource import Resource
from pipeweave.cli.support.tables import Column

if TYPE_CHECKING:
    from pipeweave.client import Client

STATES = ("running", "stalled", "draining", "stopped", "crashed")


def _chosen(client: Client, given: str) -> str:
    """The id of a worker, given whole or by its beginning."""
    found = [each["id"] for each in client.workers()]
    return given if given in found else id_arguments.worker(given, found)


@click.group(cls=Resource, noun="worker", find=_chosen)
def workers() -> None:
    """List, show, drain and resume workers.

    Without a command, it lists them.
    """


@workers.command("list", epilog=examples("pipeweave workers --state stalled"))
@click.option("--state", type=click.Choice(STATES), help="Only the workers in this state.")
@click.option("--service", help="Only this service's workers.")
@json_option
@connected
def list_workers(client: Client, state: str | None, service: str | None, as_json: bool) -> None:
    """List the worker processes and the instances of HTTP services.

    Those that ended are listed for a week.
    """
    cells: dict[Column, Callable[[Mapping[str, Any]], Any]] = {
        Column("worker"): field("id"),
        Column("service", drop=1): field("serviceId"),
        Column("state"): field("state"),
        Column("busy"): _busy,
        Column("starts/h", drop=4): field("startsLastHour"),
        Column("memory", drop=3): _memory,
        Column("cpu", drop=5): _cpu,
        Column("version", drop=6): _version,
        moment("last heartbeat (UTC)", drop=2): lambda each: when(each["heartbeatAt"]),
    }
    none = "No workers. `pipeweave worker --app YOUR_MODULE` starts one."
    found = client.workers(state=state, service=service)
    show_list("workers", found, cells, as_json=as_json, none=none, client=client)


@workers.command()
@click.argument("worker")
@json_option
@connected
def show(client: Client, worker: str, as_json: bool) -> None:
    """Show a worker, what it runs, and what was lost with it.

    WORKER is its id, or the beginning of one.
    """
    found = client.worker(_chosen(client, worker))
    if as_json:
        show_json(found)
        return
    shown = {
        "worker": found["id"],
        "state": found["state"],
        "service": found["serviceId"],
        "host": found["hostname"],
        "version": found["version"],
        "queues": found["queues"] or None,
        "busy": _busy(found),
        "starts in the last hour": found["startsLastHour"],
        "memory": _memory(found),
        "cpu": _cpu(found),
        "started (UTC)": when(found["startedAt"]),
        "last heartbeat (UTC)": when(found["heartbeatAt"]),
        "last message (UTC)": found["lastFetchAt"] and when(found["lastFetchAt"]),
        "drained since (UTC)": found["drainRequestedAt"] and when(found["drainRequestedAt"]),
        "reason": found["drainReason"],
        "ended (UTC)": found["stoppedAt"] and when(found["stoppedAt"]),
        "last error": found["lastError"],
        "tasks": found["tasks"],
    }
    show_fields(shown.items())
    click.echo()
    cells: dict[Column, Callable[[Mapping[str, Any]], Any]] = {
        Column("task run"): field("id"),
        Column("task"): field("taskId"),
        Column("attempt", drop=2): field("attempt"),
        moment("since (UTC)", drop=1): lambda each: when(each["startedAt"]),
    }
    show_list("taskRuns", found["taskRuns"], cells, as_json=False, none="It runs nothing.")
    if found["lostAttempts"]:
        click.echo("\nLost with it:")
        lost: dict[Column, Callable[[Mapping[str, Any]], Any]] = {
            Column("task run"): field("id"),
            Column("task"): field("taskId"),
            Column("attempt", drop=3): field("attempt"),
            moment("lost (UTC)", drop=1): lambda each: when(each["lostAt"]),
            Column("now"): field("status"),
            Column("taken over by", drop=2): field("worker"),
        }
        show_list("lostAttempts", found["lostAttempts"], lost, as_json=False, none="")


workers.verb(
    "drain",
    """Let a worker take nothing more.

    What it calls already goes on; other workers get the rest. WORKER is its id, or the beginning of one.
    """,
    "{} takes nothing more",
    click.option("--reason", help="Shown wherever the worker is."),
    epilog=examples("pipeweave workers drain worker-4711 --reason 'a new kernel'"),
)
workers.verb("resume", "Let a worker that drains take work again.", "{} takes work again")


def _busy(worker: Mapping[str, Any]) -> str | None:
    if worker["busy"] is None or worker["places"] is None:
        return None
    return f"{worker['busy']} of {worker['places']}"


def _memory(worker: Mapping[str, Any]) -> str | None:
    return None if worker["rssBytes"] is None else f"{worker['rssBytes'] / 2**20:,.0f} MiB"


def _cpu(worker: Mapping[str, Any]) -> str | None:
    return None if worker["cpuPercent"] is None else f"{worker['cpuPercent']:,.1f} %"


def _version(worker: Mapping[str, Any]) -> str | None:
    """A version in few letters: that of a worker is a hash of its code."""
    version = worker["version"]
    return None if version is None else str(version)[:12]
