"""`pipeweave triggers`: store, list, show and pause what starts runs when something happens."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeweave import webhooks
from pipeweave.cli.support.connection import connected, data_dir_option, json_option
from pipeweave.cli.support.fires import show_fires
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import (
    Cells,
    field,
    moment,
    show_answer,
    show_fields,
    show_json,
    show_list,
    text,
    when,
)
from pipeweave.cli.support.resource import Resource
from pipeweave.cli.support.run_options import json_value, paused_option
from pipeweave.cli.support.secret_key import deployment_secret
from pipeweave.cli.support.tables import Column

if TYPE_CHECKING:
    from pipeweave.client import Client, Document


def _secret(ctx: click.Context, param: click.Parameter, path: Path | None) -> str | None:
    """The secret in a file: an argument would be seen in the list of processes."""
    if path is None:
        return None
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{path} cannot be read: {error}", ctx, param) from None


_filter = click.option(
    "--filter", "wanted", callback=json_value, metavar="JSON", help="Path -> the values that let it fire."
)
_input = click.option(
    "-i", "--input", "given", callback=json_value, metavar="JSON", help="The input, with references."
)


@click.group(cls=Resource, noun="trigger")
def triggers() -> None:
    """List and change triggers.

    A trigger starts runs of a pipeline when something happens. Without a command, it lists them.
    """


@triggers.command("list")
@click.option("--pipeline", help="Only this pipeline's triggers.")
@json_option
@connected
def list_triggers(client: Client, pipeline: str | None, as_json: bool) -> None:
    """List the triggers and when they last fired."""
    cells = {
        Column("trigger"): field("id"),
        Column("pipeline"): field("pipelineId"),
        Column("fires for", drop=2): _what,
        moment("last (UTC)", drop=1): lambda each: "paused" if each["paused"] else when(each["lastFireAt"]),
        Column("last error", wraps=True, drop=3): lambda each: (each["lastError"] or {}).get("message"),
    }
    none = "No triggers yet. `pipeweave triggers webhook` and `… event` store one."
    show_list("triggers", client.triggers(pipeline), cells, as_json=as_json, none=none, client=client)


@triggers.command()
@click.argument("trigger_id", metavar="TRIGGER")
@json_option
@connected
def show(client: Client, trigger_id: str, as_json: bool) -> None:
    """Show a trigger and its last fires. Its secret is never shown."""
    _show(client.read_trigger(trigger_id), as_json, client.url)


@triggers.command(
    epilog=examples(
        "pipeweave triggers webhook orders import",
        "pipeweave triggers webhook pushes build --scheme github",
    )
)
@click.argument("trigger_id", metavar="TRIGGER")
@click.argument("pipeline")
@click.option("--scheme", type=click.Choice(list(webhooks.SCHEMES)), help="How the sender signs.")
@_filter
@_input
@click.option("--header", "headers", multiple=True, metavar="NAME", help="A header that the run gets.")
@click.option("--max-per-minute", type=click.IntRange(1, 60_000), help="So many deliveries are taken.")
@click.option(
    "--secret-file",
    "secret",
    type=click.Path(path_type=Path),
    callback=_secret,
    metavar="FILE",
    help="It holds the secret; without it, one is made.",
)
@click.option("--signal", metavar="NAME", help="Signal the run of --run-token instead of starting one.")
@click.option("--run-token", metavar="TEMPLATE", help="The run token of the run that is signalled.")
@click.option(
    "--payload", callback=json_value, metavar="JSON", help="The payload of the signal; else the input."
)
@click.option("--or-start", is_flag=True, help="Start the run first, if there is none with the token.")
@paused_option
@json_option
@connected
def webhook(client: Client, trigger_id: str, pipeline: str, as_json: bool, **options: Any) -> None:
    """Store a webhook that starts or signals runs, or replace it.

    A new one prints its secret, this once. What is not given has its default, but the secret stays.
    """
    named = {
        "kind": "webhook",
        "pipelineId": pipeline,
        "scheme": options["scheme"],
        "filter": options["wanted"],
        "input": options["given"],
        "headers": list(options["headers"]) or None,
        "maxPerMinute": options["max_per_minute"],
        "secret": options["secret"],
        "paused": options["paused"],
        "signal": _signal(options),
    }
    body = {name: value for name, value in named.items() if value is not None}
    _show(client.put_trigger(trigger_id, body), as_json, client.url)


@triggers.command(
    epilog=examples(
        'pipeweave triggers event alert send --filter \'{"status": "failed"}\'',
        "pipeweave triggers event next report --on task-completed",
    )
)
@click.argument("trigger_id", metavar="TRIGGER")
@click.argument("pipeline")
@click.option(
    "--on",
    type=click.Choice(["pipeline-completed", "task-completed"]),
    default="pipeline-completed",
    show_default=True,
    help="What it fires for.",
)
@_filter
@_input
@click.option("--allow-self", is_flag=True, help="Runs of its own pipeline fire it, too.")
@paused_option
@json_option
@connected
def event(client: Client, trigger_id: str, pipeline: str, as_json: bool, **options: Any) -> None:
    """Store a trigger that fires when runs or tasks end."""
    named = {
        "kind": "event",
        "pipelineId": pipeline,
        "on": options["on"],
        "filter": options["wanted"],
        "input": options["given"],
        "allowSelf": options["allow_self"] or None,
        "paused": options["paused"],
    }
    body = {name: value for name, value in named.items() if value is not None}
    _show(client.put_trigger(trigger_id, body), as_json, client.url)


@triggers.command()
@click.argument("trigger_id", metavar="TRIGGER")
@click.option(
    "--overlap",
    type=click.IntRange(0, 30 * 86_400),
    default=86_400,
    show_default=True,
    metavar="SECONDS",
    help="For so long, the secret before it is valid, too.",
)
@click.option(
    "--secret-file",
    "secret",
    type=click.Path(path_type=Path),
    callback=_secret,
    metavar="FILE",
    help="It holds the new secret; without it, one is made.",
)
@json_option
@connected
def rotate(client: Client, trigger_id: str, overlap: int, secret: str | None, as_json: bool) -> None:
    """Give a webhook a new secret, and print it, this once."""
    _show(client.rotate_trigger_secret(trigger_id, secret, overlap_seconds=overlap), as_json, client.url)


triggers.verb("pause", "Pause a trigger; its runs go on.", "Trigger {} is paused")
triggers.verb("resume", "Resume a trigger; what it missed is not made up for.", "Trigger {} is resumed")
triggers.verb("delete", "Delete a trigger; its runs go on.", "Deleted trigger {}")


@triggers.command(
    epilog=examples(
        'header="$(pipeweave triggers sign --secret-file key body.json)"',
        'curl -H "$header" --data-binary @body.json URL/api/webhooks/default/orders',
    )
)
@click.option(
    "--secret-file",
    "secret",
    required=True,
    type=click.Path(path_type=Path),
    callback=_secret,
    metavar="FILE",
    help="It holds the secret of the webhook.",
)
@click.argument("body", type=click.File("rb"))
@json_option
def sign(secret: str, body: Any, as_json: bool) -> None:
    """Print the header that signs a delivery now. BODY is a file, or - for standard input."""
    value = webhooks.sign(secret, int(time.time()), body.read())
    show_answer({"name": webhooks.HEADER, "value": value}, as_json, f"{webhooks.HEADER}: {value}")


@triggers.command("hook-secret")
@click.argument("name", default="default")
@click.option("--tenant", help="The tenant of the pipeline. Defaults to PIPEWEAVE_TENANT.")
@data_dir_option
@json_option
def print_hook_secret(name: str, tenant: str | None, data_dir: Path | None, as_json: bool) -> None:
    """Print a secret that signs the calls of hooks.

    NAME is what the hook names; `default` without it. It is computed here, from the PIPEWEAVE_SECRET_KEY of
    the environment or of the stack.
    """
    deployment = deployment_secret(data_dir)
    value = webhooks.hook_secret(deployment.key, tenant or deployment.tenant, name)
    show_answer({"name": name, "secret": value}, as_json, value)


def _signal(options: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The member `signal` of a webhook."""
    if options["signal"] is None:
        if options["run_token"] is not None or options["payload"] is not None or options["or_start"]:
            raise click.UsageError("--run-token, --payload and --or-start belong to --signal.")
        return None
    if options["run_token"] is None:
        raise click.UsageError("--signal needs --run-token: which run gets the signal.")
    named = {"name": options["signal"], "runToken": options["run_token"], "payload": options["payload"]}
    shown = {name: value for name, value in named.items() if value is not None}
    return {**shown, "orStart": options["or_start"]}


def _what(each: Mapping[str, Any]) -> str:
    return str(each["on"] or f"webhook ({each['scheme']})")


def _sends(signal: Mapping[str, Any] | None) -> str | None:
    if signal is None:
        return None
    start = ", or starts it first" if signal["orStart"] else ""
    return f"{signal['name']} to the run with the token {signal['runToken']}{start}"


def _as_json(value: Any) -> str | None:
    import orjson

    return None if value is None else orjson.dumps(value).decode()


def _show(trigger: Document, as_json: bool, server: str) -> None:
    for each in trigger.get("warnings") or ():
        click.echo(text(f"warning: each run will be refused: {each['field']} {each['message']}"), err=True)
    if trigger.get("warnings"):
        click.echo(text(_how_to_make_the_input(trigger)), err=True)
    if as_json:
        show_json(trigger)
        return
    reused = trigger["reusedIds"]
    url = f"{server}{trigger['path']}" if trigger["path"] else None
    error, signal = trigger["lastError"], trigger.get("signal")
    show_fields(
        {
            "trigger": trigger["id"],
            "pipeline": trigger["pipelineId"],
            "fires for": _what(trigger),
            "URL": url,
            "filter": _as_json(trigger["filter"] or None),
            "input": _as_json(trigger["input"]),
            "signals": _sends(signal),
            "payload": signal and _as_json(signal["payload"]),
            "headers": ", ".join(trigger["headers"]) or None,
            "at most": trigger["maxPerMinute"] and f"{trigger['maxPerMinute']:,} a minute",
            "its own pipeline": "fires it, too" if trigger["allowSelf"] else None,
            "paused": "yes" if trigger["paused"] else None,
            "old secret until (UTC)": trigger["oldSecretUntil"] and when(trigger["oldSecretUntil"]),
            "refused": f"{reused:,} with the id of another delivery" if reused else None,
            "last error": error and f"{error['code']}: {error['message']}",
            "secret (shown once)": trigger.get("secret"),
        }.items()
    )
    if url is not None and trigger["scheme"] == webhooks.DEFAULT_SCHEME:
        click.echo(f"\n{_DELIVERY}\n  {text(webhooks.delivery_line(url, trigger['headers']))}")
    if trigger["lastFires"]:
        click.echo()
        key: Cells = {Column("for"): field("key")}
        show_fires(trigger["lastFires"], "firedAt", before_outcome=key)


_DELIVERY = "To deliver body.json, with the secret in the file key:"


def _how_to_make_the_input(trigger: Document) -> str:
    """The option that mends an input which the pipeline will refuse; for a webhook, with what is missing."""
    missing = [str(each["field"]) for each in trigger["warnings"] if each["code"] == "missing"]
    made = {each: f"${{input.body.{each}}}" for each in missing}
    example = f", such as --input {shlex.quote(json.dumps(made))}" if made and trigger["scheme"] else ""
    return f"Store it again with --input, which makes what the pipeline takes{example}"
