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
from pipeweave.labels import in_words

if TYPE_CHECKING:
    from pipeweave.client import Client

STATES = ("running", "stalled", "draining", "stopped", "crashed")


def _chosen(client: Client, reference: str) -> str:
    """The id of a worker, given whole or by its beginning."""
    worker_ids = [each["id"] for each in client.workers()]
    return reference if reference in worker_ids else id_arguments.worker(reference, worker_ids)


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
        Column("labels", drop=3): lambda each: in_words(each.get("labels") or {}) or None,
        moment("last heartbeat (UTC)", drop=2): lambda each: when(each["heartbeatAt"]),
    }
    none = "No workers. `pipeweave worker --app YOUR_MODULE` starts one."
    rows = client.workers(state=state, service=service)
    show_list("workers", rows, cells, as_json=as_json, none=none, client=client)


@workers.command()
@click.argument("worker")
@json_option
@connected
def show(client: Client, worker: str, as_json: bool) -> None:
    """Show a worker, what it runs, and what was lost with it.

    WORKER is its id, or the beginning of one.
    """
    record = client.worker(_chosen(client, worker))
    if as_json:
        show_json(record)
        return
    shown = {
        "worker": record["id"],
        "state": record["state"],
        "service": record["serviceId"],
        "host": record["hostname"],
        "version": record["version"],
        "queues": record["queues"] or None,
        "labels": in_words(record.get("labels") or {}) or None,
        "busy": _busy(record),
        "starts in the last hour": record["startsLastHour"],
        "memory": _memory(record),
        "cpu": _cpu(record),
        "started (UTC)": when(record["startedAt"]),
        "last heartbeat (UTC)": when(record["heartbeatAt"]),
        "last message (UTC)": record["lastFetchAt"] and when(record["lastFetchAt"]),
        "drained since (UTC)": record["drainRequestedAt"] and when(record["drainRequestedAt"]),
        "reason": record["drainReason"],
        "ended (UTC)": record["stoppedAt"] and when(record["stoppedAt"]),
        "last error": record["lastError"],
        "tasks": record["tasks"],
    }
    show_fields(shown.items())
    click.echo()
    cells: dict[Column, Callable[[Mapping[str, Any]], Any]] = {
        Column("task run"): field("id"),
        Column("task"): field("taskId"),
        Column("attempt", drop=2): field("attempt"),
        moment("since (UTC)", drop=1): lambda each: when(each["startedAt"]),
    }
    show_list("taskRuns", record["taskRuns"], cells, as_json=False, none="It runs nothing.")
    if record["lostAttempts"]:
        click.echo("\nLost with it:")
        lost: dict[Column, Callable[[Mapping[str, Any]], Any]] = {
            Column("task run"): field("id"),
            Column("task"): field("taskId"),
            Column("attempt", drop=3): field("attempt"),
            moment("lost (UTC)", drop=1): lambda each: when(each["lostAt"]),
            Column("now"): field("status"),
            Column("taken over by", drop=2): field("worker"),
        }
        show_list("lostAttempts", record["lostAttempts"], lost, as_json=False, none="")


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
