"""`pipeweave secrets`: whether secrets are found, which pipelines name them, and stored ones sealed anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pipeweave.cli.support import audited
from pipeweave.cli.support.connection import json_option, with_database
from pipeweave.cli.support.deployment_options import with_deployment
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import field, show_answer, show_list
from pipeweave.cli.support.tables import Column
from pipeweave.errors import FieldError, InvalidSetting

if TYPE_CHECKING:
    from pipeweave.settings import Settings

_tenant = click.option("--tenant", help="Whose secrets. Defaults to PIPEWEAVE_TENANT.")


@click.group()
def secrets() -> None:
    """Find secrets, and exchange the secret key."""


@secrets.command(epilog=examples("pipeweave secrets check DB_PASSWORD --tenant shop"))
@click.argument("name")
@_tenant
@json_option
@with_deployment
def check(settings: Settings, name: str, tenant: str | None, as_json: bool) -> None:
    """Find a secret as a worker with these settings would.

    It says where the secret is and how long it is, and never shows its value.
    """
    from pipeweave.secrets import SecretFinder

    secret = SecretFinder(settings.secrets).find(tenant or settings.tenant, name)
    answer = {
        "name": name,
        "tenant": tenant or settings.tenant,
        "provider": secret.provider,
        "place": secret.place,
        "length": len(secret.value),
    }
    said = f"{name} is at {secret.provider} as {secret.place}: {len(secret.value)} characters"
    show_answer(answer, as_json, said)


@secrets.command("list")
@_tenant
@json_option
@with_database
def list_(database_url: str, tenant: str | None, as_json: bool) -> None:
    """List the secrets that pipelines name in their latest versions."""
    from pipeweave.cli.support.direct_database import opened
    from pipeweave.orchestrator.reading import secret_references
    from pipeweave.settings import load

    with opened(database_url) as database, database.transaction() as tx:
        rows = secret_references.list_references(tx, tenant or load().tenant)
    cells = {Column("name"): field("name"), Column("pipelines", wraps=True): field("pipelines")}
    show_list("secrets", rows, cells, as_json=as_json, none="No pipeline names a secret.")


@secrets.command()
@json_option
@with_deployment
def rewrap(settings: Settings, as_json: bool) -> None:
    """Seal stored secrets anew with the newest key.

    That is the first of PIPEWEAVE_SECRET_KEY. It may be stopped, and begins again with what is left.
    """
    from pipeweave.cli.support.direct_database import opened
    from pipeweave.orchestrator.deployment import sealed_columns
    from pipeweave.orchestrator.security import audit, rewrapping

    if settings.secret_key is None or settings.database_url is None:
        missing = "PIPEWEAVE_SECRET_KEY" if settings.secret_key is None else "DATABASE_URL"
        fault = FieldError(missing, "is not set", "required")
        raise InvalidSetting(f"{missing} is not set", errors=[fault], hint="set it as the deployment has it")
    with opened(settings.database_url) as database:
        note = audited.note("secrets rewrap")
        audit.begin_many(database, note)
        done = rewrapping.rewrap(database, settings.secret_key, sealed_columns.SEALED)
        audit.end_many(database, note, {"sealed": done.count, "unreadable": len(done.unreadable)})
    answer = {"sealed": done.count, "unreadable": done.unreadable}
    show_answer(answer, as_json, f"Sealed {done.count} stored secrets with the first key")
    if done.unreadable:
        raise InvalidSetting(
            f"no key opens {', '.join(done.unreadable[:5])}",
            errors=[
                FieldError("PIPEWEAVE_SECRET_KEY", "lacks the key that they were sealed with", "changed")
            ],
            hint="add that key behind the others, or give the triggers new secrets",
        )
