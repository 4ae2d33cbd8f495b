"""`pipeweave storage | upload | uploads`: list the backends, sweep them, and bring files for runs."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support.connection import connected, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import (
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
from pipeweave.cli.support.tables import Column

if TYPE_CHECKING:
    from pipeweave.client import Client, Document

_COUNTED = ("seen", "kept", "deleted", "bytes", "young", "unknown")
_SHOWN_EXAMPLES = 20


@click.group(cls=Resource)
def storage() -> None:
    """List the storage backends, or delete what nothing refers to.

    Without a command, it lists them.
    """


@storage.command("list")
@json_option
@connected
def list_backends(client: Client, as_json: bool) -> None:
    """List the storage backends, without credentials."""
    listing = client.storage_backends()
    cells = {
        Column("backend"): field("id"),
        Column("provider"): field("provider"),
        Column("bucket", drop=1): field("bucket"),
        Column("endpoint", drop=2): field("endpoint"),
        Column("region", drop=3): field("region"),
        Column("default"): lambda each: "yes" if each["isDefault"] else "",
    }
    show_list("backends", listing["backends"], cells, as_json=as_json, default=listing["default"])


@storage.command(epilog=examples("pipeweave storage usage", "pipeweave storage usage --prefix runs/"))
@click.option("--backend", metavar="ID", help="Of this backend. Defaults to the default backend.")
@click.option("--prefix", metavar="PATH", help="Only paths that begin with it.")
@json_option
@connected
def usage(client: Client, backend: str | None, prefix: str | None, as_json: bool) -> None:
    """Measure what lies in a backend, from a sample.

    `~` is about so much, `+` is at least so much.
    """
    sample = client.storage_usage(backend, prefix)
    cells = {
        Column("paths"): lambda each: each["prefix"],
        Column("objects"): lambda each: _measured(each, "objects"),
        Column("bytes"): lambda each: _measured(each, "bytes"),
        moment("newest (UTC)", drop=1): lambda each: when(each["newest"]),
    }
    more = {name: sample[name] for name in ("backend", "seen", "largest")}
    show_list("prefixes", sample["prefixes"], cells, as_json=as_json, **more)


def _measured(part: Document, name: str) -> str:
    return f"{'~' if part['isEstimate'] else ''}{part[name]:,}{'+' if part['isCapped'] else ''}"


@storage.command(epilog=examples("pipeweave storage sweep --dry-run"))
@click.option("--dry-run", is_flag=True, help="Only print what would be deleted.")
@click.option("--backend", metavar="ID", help="Only this backend.")
@click.option(
    "--adopt", is_flag=True, help="The objects of a backend without our mark are this deployment's."
)
@json_option
@connected
def sweep(client: Client, dry_run: bool, backend: str | None, adopt: bool, as_json: bool) -> None:
    """Delete objects that no row refers to.

    The tick does so once an hour. Young objects are left alone: see STORAGE_GRACE_HOURS.
    """
    report = _whole_pass(client, dry_run=dry_run, backend=backend, adopt=adopt)
    show_answer(report, as_json, _show_report)


def _whole_pass(client: Client, **order: Any) -> Document:
    """Send requests until all was seen, and add their reports up."""
    counts: Counter[str] = Counter()
    examples: list[str] = []
    after = None
    while True:
        report = client.sweep_storage(**order, after=after)
        counts.update({name: report[name] for name in _COUNTED})
        examples += report["examples"][: _SHOWN_EXAMPLES - len(examples)]
        after = report["next"]
        if after is None:
            named = {name: counts[name] for name in _COUNTED}
            return {"dryRun": order["dry_run"], **named, "examples": examples}


def _show_report(report: Document) -> None:
    verb = "would be deleted" if report["dryRun"] else "deleted"
    show_fields(
        [
            ("seen", f"{report['seen']:,} objects"),
            ("kept", f"{report['kept']:,} that rows refer to"),
            ("too young", f"{report['young']:,}"),
            ("not ours", f"{report['unknown']:,}"),
            (verb, f"{report['deleted']:,} ({report['bytes']:,} bytes)"),
        ]
    )
    for each in report["examples"]:
        click.echo(f"  {text(each)}")
    if report["deleted"] > len(report["examples"]):
        click.echo(f"  and {report['deleted'] - len(report['examples']):,} more")


# --- uploads ----------------------------------------------------------------------------------------------


@click.command(epilog=examples("pipeweave upload report.csv"))
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--name", help="The file name that tasks see. Defaults to the file's own.")
@json_option
@connected
def upload(client: Client, file: Path, name: str | None, as_json: bool) -> None:
    """Upload a file for a run, and print its id.

    Name the id in the input of a run within 24 hours; otherwise the file is deleted.
    """
    stored_file = client.upload(file, name)
    if as_json:
        show_json(stored_file)
    else:
        click.echo(stored_file["uploadId"])


@click.command()
@click.option(
    "-n",
    "--limit",
    metavar="N",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    help="At most.",
)
@json_option
@connected
def uploads(client: Client, limit: int, as_json: bool) -> None:
    """List the uploaded files, newest first."""
    cells = {
        Column("upload"): field("uploadId"),
        Column("file", wraps=True, breaks=True): field("filename"),
        Column("bytes", drop=2): lambda each: f"{each['size']:,}",
        Column("state"): _state,
        moment("uploaded (UTC)", drop=1): lambda each: when(each["uploadedAt"]),
        Column("run", drop=3): field("claimedByRunId"),
    }
    none = "No uploads yet. `pipeweave upload FILE` makes one."
    files = list(islice(client.uploads(), limit))
    show_list("uploads", files, cells, as_json=as_json, none=none, client=client)


def _state(upload: Any) -> str:
    for name in ("deleted", "claimed", "expired"):
        if upload[name]:
            return name
    return "waiting"
