"""`pipeweave audit`: list who changed what, or write all of it as lines of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support.connection import connected, json_option
from pipeweave.cli.support.export_file import write_rows
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.lifetime import Lifetime, time_of
from pipeweave.cli.support.list_options import cursor_option, limit_option
from pipeweave.cli.support.rendering import field, moment, show_list, when
from pipeweave.cli.support.tables import Column

if TYPE_CHECKING:
    from pipeweave.client import Client


@click.command(
    epilog=examples(
        "pipeweave audit --verb tasks.pause --since 7d",
        "pipeweave audit --object nightly --json",
        "pipeweave audit --since 30d --ndjson > audit.ndjson",
    )
)
@click.option("--actor", help="Only what this one did: a token's name, of commands user@host.")
@click.option("--verb", help="Only this operation, e.g. tasks.pause.")
@click.option("--object", "object_", metavar="ID", help="Only changes of this object.")
@click.option("--since", type=Lifetime(), help="At most this long ago, or since a time.")
@click.option("--until", type=Lifetime(), help="Longer ago than this, or before a time.")
@limit_option
@cursor_option
@click.option("--ndjson", is_flag=True, help="Write all rows, the oldest first, one a line.")
@json_option
@connected
def audit(
    client: Client,
    limit: int,
    cursor: str | None,
    ndjson: bool,
    as_json: bool,
    **chosen: Any,
) -> None:
    """List who changed what, newest first.

    It takes an administrator's token.
    """
    filters = _filters(**chosen)
    if ndjson:
        click.echo(f"{write_rows(client, 'audit', filters):,} rows exported", err=True)
        return
    cells = {
        moment("time (UTC)"): lambda each: when(each["at"]),
        Column("who", wraps=True): field("actor"),
        Column("by", drop=3): field("source"),
        Column("verb"): field("verb"),
        Column("object", wraps=True, breaks=True): _object,
        Column("changed", wraps=True, breaks=True, drop=1): _changed,
        Column("reason", wraps=True, breaks=True, drop=2): field("reason"),
    }
    page = client.audit(limit=limit, cursor=cursor, **filters)
    none = "Nothing matches." if filters else "Nobody has changed anything yet."
    show_list("entries", page, cells, as_json=as_json, none=none)


def _filters(since: Any, until: Any, object_: str | None, **texts: str | None) -> dict[str, str]:
    now = datetime.now(UTC)
    filters = {**texts, "object": object_, "since": time_of(since, now), "until": time_of(until, now)}
    return {name: value for name, value in filters.items() if value is not None}


def _object(entry: Mapping[str, Any]) -> str:
    return f"{entry['kind']} {entry['object']}".strip()


def _changed(entry: Mapping[str, Any]) -> str:
    """The members that changed, as they are now; those that are gone, as they were."""
    after, before = entry["after"] or {}, entry["before"] or {}
    gone = {name: None for name in before if name not in after}
    return ", ".join(f"{name}={_value(value)}" for name, value in {**gone, **after}.items())


def _value(value: Any) -> str:
    return "none" if value is None else str(value)
