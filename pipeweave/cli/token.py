"""`pipeweave token`: create, list and revoke access tokens, directly in the database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support import audited
from pipeweave.cli.support.connection import json_option, with_database
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.lifetime import Lifetime
from pipeweave.cli.support.rendering import field, moment, show_answer, show_json, show_list, when
from pipeweave.cli.support.tables import Column
from pipeweave.cli.support.thumbprint import Thumbprint
from pipeweave.errors import Conflict

if TYPE_CHECKING:
    from pipeweave.orchestrator.store import Transaction

SCOPE_PREFIX = "orchestrator:"
SCOPES = ("read", "approve", "write", "admin", "worker", "tick")


@click.group()
def token() -> None:
    """Create, list and revoke access tokens."""


@token.command(
    epilog=examples(
        "pipeweave token create ci --scope write --expires 90d",
        "pipeweave token create dashboard --scope read --tenant shop",
        "pipeweave token create mailer --scope worker --service mailer",
    )
)
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(SCOPES),
    default=("write",),
    show_default=True,
    help="Scope of the token; approve and write include read, write includes approve, admin includes all but"
    " worker. May be repeated.",
)
@click.option(
    "--tenant",
    "tenants",
    multiple=True,
    default=("default",),
    show_default=True,
    help="Tenant that the token may act for; * for every tenant.",
)
@click.option(
    "--group",
    "groups",
    multiple=True,
    help="Group of people that the token stands for: approvals name it as `group:NAME`. May be repeated.",
)
@click.option(
    "--expires",
    type=Lifetime(),
    help="When the token expires. Defaults to never; with the scope admin to 90 days.",
)
@click.option(
    "--network",
    "networks",
    multiple=True,
    help="Network from which alone the token may be used, e.g. 10.1.0.0/16. May be repeated.",
)
@click.option("--service", help="For the scope worker: the only service that the token may register.")
@click.option(
    "--certificate",
    type=Thumbprint(),
    help="Certificate that whoever uses the token must have, as a file (PEM), or its SHA-256.",
)
@json_option
@with_database
def create(
    database_url: str,
    name: str,
    scopes: tuple[str, ...],
    tenants: tuple[str, ...],
    groups: tuple[str, ...],
    expires: timedelta | datetime | None,
    networks: tuple[str, ...],
    service: str | None,
    certificate: str | None,
    as_json: bool,
) -> None:
    """Create a token and print it.

    It cannot be shown again.
    """
    from pipeweave.orchestrator.domain import iso
    from pipeweave.orchestrator.security import TokenBounds, access_tokens, audit, audited_objects

    full = [SCOPE_PREFIX + scope for scope in scopes]
    with _transaction(database_url) as tx:
        expires_at = tx.now + expires if isinstance(expires, timedelta) else expires
        details = {"name": name, "tenants": list(tenants), "scopes": full, "expiresAt": iso(expires_at)}
        bounds = TokenBounds(networks, service, certificate)
        shown_bounds = {"networks": list(networks), "serviceId": service, "certificate": certificate}
        details |= {"groups": list(groups)} if groups else {}
        details |= {name: value for name, value in shown_bounds.items() if value}
        note = audited.note("token create", name, details, _only(tenants))
        made = audit.recorded(
            tx,
            note,
            lambda tx: access_tokens.make_token(
                tx,
                name=name,
                tenants=tenants,
                scopes=full,
                expires_at=expires_at,
                groups=groups,
                bounds=bounds,
            ),
            audited_objects.AUDITED,
        )
    if as_json:
        shown = {"name": name, "token": made.token, "tenants": tenants, "scopes": full, "groups": groups}
        whole = {**shown_bounds, "networks": made.bounds.networks}
        show_json({**shown, **whole, "expiresAt": iso(made.expires_at)})
        return
    click.echo(made.token)
    ends = f" It expires at {when(iso(made.expires_at))} UTC." if made.expires_at else ""
    click.echo(f"Store this token: it cannot be shown again.{ends}", err=True)


@token.command("list")
@json_option
@with_database
def list_(database_url: str, as_json: bool) -> None:
    """List the tokens, newest first, without secrets."""
    from pipeweave.orchestrator.reading import tokens

    with _transaction(database_url) as tx:
        rows = tokens.list_tokens(tx)
    cells = {
        Column("id"): field("id"),
        Column("name"): field("name"),
        Column("tenants", wraps=True, drop=1): field("tenants"),
        Column("scopes", wraps=True): lambda each: [_scope(scope) for scope in each["scopes"]],
        Column("bound to", wraps=True, drop=5): _bounds,
        Column("valid"): lambda each: "yes" if each["isValid"] else "no",
        moment("created (UTC)", drop=4): lambda each: when(each["createdAt"]),
        moment("expires (UTC)", drop=2): lambda each: when(each["expiresAt"]),
        moment("revoked (UTC)", drop=3): lambda each: when(each["revokedAt"]),
    }
    none = "No tokens yet. `pipeweave token create NAME` creates one."
    show_list("tokens", rows, cells, as_json=as_json, none=none)


@token.command()
@click.argument("name_or_id")
@click.option("--children", is_flag=True, help="Also revoke the tokens that it made, and what those made.")
@json_option
@with_database
def revoke(database_url: str, name_or_id: str, children: bool, as_json: bool) -> None:
    """Revoke a token by its id, or all tokens of a name."""
    from pipeweave.orchestrator.security import access_tokens, audit, audited_objects

    with _transaction(database_url) as tx:
        note = audited.note("token revoke", name_or_id)
        revoked = audit.recorded(
            tx,
            note,
            lambda tx: access_tokens.revoke(tx, name_or_id, takes_children=children),
            audited_objects.AUDITED,
        )
    show_answer({"revoked": revoked}, as_json, f"Revoked {', '.join(revoked)}")


def _only(tenants: Sequence[str]) -> str | None:
    """The tenant whose audit has the row; None for a token that is valid for several."""
    return tenants[0] if len(tenants) == 1 and tenants[0] != "*" else None


def _bounds(row: dict[str, Any]) -> list[str]:
    bounds = [row["serviceId"], *row["networks"], "a certificate" if row["certificate"] else None]
    return [each for each in bounds if each]


def _scope(full: str) -> str:
    return full.removeprefix(SCOPE_PREFIX)


@contextmanager
def _transaction(database_url: str) -> Iterator[Transaction]:
    from pipeweave.orchestrator.deployment import schema_check
    from pipeweave.orchestrator.store import Database

    if not schema_check.status(database_url).is_current:
        raise Conflict("the database lacks the current schema", hint="run `pipeweave db migrate` first")
    with Database(database_url, pool_size=0).transaction() as tx:
        yield tx
