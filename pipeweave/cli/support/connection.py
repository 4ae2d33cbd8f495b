"""Options with which a command finds what it works on, and the client it uses.

`pipeweave.settings.connecting` chooses between the flags, the environment and the stack of this folder.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeweave.settings import connecting, load, load_for_client
from pipeweave.settings.connecting import OrchestratorAddress

if TYPE_CHECKING:
    from pipeweave.client import Client

Command = Callable[..., Any]

data_dir_option = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Use the stack that `pipeweave up --data-dir` runs in this folder.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def connected(command: Command) -> Command:
    """Add the flags --url, --token, --tenant and --data-dir to a command, and pass it a `client`."""

    def with_client(*, client: Client | None, **options: Any) -> Any:
        return command(client=required(client), **options)

    return connected_if_configured(functools.wraps(command)(with_client))


def required(client: Client | None) -> Client:
    """The client of a command. Raises Unavailable if nothing names an orchestrator."""
    if client is None:
        raise connecting.no_orchestrator(load())
    return client


def connected_if_configured(command: Command) -> Command:
    """As `connected`, for a command that can do without: `client` is None where nothing names an
    orchestrator.
    """

    @click.option("--url", help="The orchestrator's URL, e.g. http://127.0.0.1:3000.")
    @click.option(
        "--token", help="The access token. Safer in PIPEWEAVE_API_TOKEN: the process list shows arguments."
    )
    @click.option("--tenant", help="The tenant to act for; by default the only tenant of the token.")
    @data_dir_option
    @functools.wraps(command)
    def with_client(
        *, url: str | None, token: str | None, tenant: str | None, data_dir: Path | None, **options: Any
    ) -> Any:
        connection = connecting.configured_orchestrator(
            load_for_client(), url=url, token=token, tenant=tenant, data_dir=data_dir
        )
        if connection is None:
            return command(client=None, **options)
        with open_client(connection) as client:
            return command(client=client, **options)

    return with_client


def with_database(command: Command) -> Command:
    """Add the flags --database-url and --data-dir to a command, and pass it a `database_url`."""
    return _with_database(command, "--database-url")


def with_database_or_url(command: Command) -> Command:
    """As `with_database`; --url is the same as --database-url, where it can mean nothing else."""
    return _with_database(command, "--database-url", "--url")


def _with_database(command: Command, *names: str) -> Command:
    @click.option(*names, "database_url", help="postgresql://user:password@host:port/database")
    @data_dir_option
    @functools.wraps(command)
    def with_url(*, database_url: str | None, data_dir: Path | None, **options: Any) -> Any:
        return command(database_url=connecting.database(load(), database_url, data_dir), **options)

    return with_url


def open_client(connection: OrchestratorAddress) -> Client:
    """Make a client for this connection."""
    from pipeweave.client import Client

    return Client(connection.url, connection.token, connection.tenant)
