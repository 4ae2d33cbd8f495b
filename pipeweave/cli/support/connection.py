"""Choose the orchestrator, the token, the tenant or the database that a command uses.

The sources, in this order: the flags; the `connection.json` of `--data-dir`; the environment
(PIPEWEAVE_ORCHESTRATOR_URL, PIPEWEAVE_API_TOKEN, PIPEWEAVE_TENANT); the `connection.json` that `pipeweave up`
wrote in this folder. A token from a file is sent only to the URL of the same file.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeweave.errors import FieldError, InvalidInput, InvalidSetting, Unavailable
from pipeweave.settings import Settings, load, readers

if TYPE_CHECKING:
    from pipeweave.client import Client

FILE_NAME = "connection.json"
FIELDS = frozenset({"url", "tenant", "token", "databaseUrl", "brokerUrl"})

Command = Callable[..., Any]

data_dir_option = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Use the stack that `pipeweave up --data-dir` runs in this folder.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@dataclass(frozen=True, slots=True)
class Connection:
    """The orchestrator's URL, and the token and tenant to send."""

    url: str
    token: str | None
    tenant: str


def connected(command: Command) -> Command:
    """Add the flags --url, --token, --tenant and --data-dir to a command, and pass it a `client`."""

    @click.option("--url", help="The orchestrator's URL, e.g. http://127.0.0.1:3000.")
    @click.option(
        "--token", help="The access token. Safer in PIPEWEAVE_API_TOKEN: the process list shows arguments."
    )
    @click.option("--tenant", help="The tenant to act for.")
    @data_dir_option
    @functools.wraps(command)
    def with_client(
        *, url: str | None, token: str | None, tenant: str | None, data_dir: Path | None, **given: Any
    ) -> Any:
        with open_client(resolve(load(), url=url, token=token, tenant=tenant, data_dir=data_dir)) as client:
            return command(client=client, **given)

    return with_client


def with_database(command: Command) -> Command:
    """Add the flags --database-url and --data-dir to a command, and pass it a `database_url`."""

    @click.option("--database-url", help="postgresql://user:password@host:port/database")
    @data_dir_option
    @functools.wraps(command)
    def with_url(*, database_url: str | None, data_dir: Path | None, **given: Any) -> Any:
        return command(database_url=resolve_database(load(), database_url, data_dir), **given)

    return with_url


def open_client(connection: Connection) -> Client:
    """Make a client for this connection."""
    from pipeweave.client import Client

    return Client(connection.url, connection.token, connection.tenant)


def resolve(
    settings: Settings,
    *,
    url: str | None = None,
    token: str | None = None,
    tenant: str | None = None,
    data_dir: Path | None = None,
) -> Connection:
    """Choose the connection from flags, files and settings.

    Raises:
        InvalidInput: `url` and `data_dir` are both given.
        Unavailable: nothing names an orchestrator, or no stack runs on the data directory.
    """
    if url and data_dir:
        raise InvalidInput("--url and --data-dir each name an orchestrator", hint="give one of them")
    if data_dir:
        return _of_file(read(data_dir), token, tenant)
    address = url or settings.orchestrator_url
    if address:
        return Connection(address, token or settings.api_token, tenant or settings.tenant)
    here = Path(settings.data_dir)
    if not (here / FILE_NAME).exists():
        raise Unavailable(
            "no orchestrator is configured",
            hint="`pipeweave up` starts one here; or set --data-dir, --url or PIPEWEAVE_ORCHESTRATOR_URL",
        )
    own_tenant = settings.tenant if settings.tenant != Settings().tenant else None
    return _of_file(read(here), token or settings.api_token, tenant or own_tenant)


def resolve_database(settings: Settings, database_url: str | None, data_dir: Path | None) -> str:
    """Choose the database from flags, settings and files.

    Raises:
        InvalidInput: `database_url` and `data_dir` are both given.
        InvalidSetting: nothing names a database.
        Unavailable: no stack runs on the data directory.
    """
    if database_url and data_dir:
        raise InvalidInput("--database-url and --data-dir each name a database", hint="give one of them")
    if data_dir:
        return str(read(data_dir)["databaseUrl"])
    if database_url:
        return _checked(database_url)
    if settings.database_url:
        return settings.database_url
    here = Path(settings.data_dir)
    if (here / FILE_NAME).exists():
        return str(read(here)["databaseUrl"])
    raise InvalidSetting(
        "no database is configured",
        errors=[FieldError("DATABASE_URL", "is not set", "required")],
        hint="set DATABASE_URL, or give --database-url or --data-dir",
    )


def _checked(database_url: str) -> str:
    try:
        return str(readers.database_url(database_url))
    except readers.Unreadable as error:
        raise InvalidInput(
            "--database-url cannot be used", errors=[FieldError("database-url", str(error))]
        ) from error


def read(data_dir: Path) -> Mapping[str, Any]:
    """Read the connection.json of a data directory: url, tenant, token, databaseUrl, brokerUrl.

    Raises:
        Unavailable: the file is missing, because no stack runs there, or it cannot be read.
    """
    import orjson

    path = data_dir / FILE_NAME
    try:
        document = orjson.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise Unavailable(
            f"no stack runs on {data_dir}", hint=f"`pipeweave up --data-dir {data_dir}` starts one"
        ) from error
    except (OSError, orjson.JSONDecodeError) as error:
        raise Unavailable(f"{path} cannot be read: {error}") from error
    if not isinstance(document, dict) or FIELDS - document.keys():
        raise Unavailable(f"{path} is not the connection file of `pipeweave up`")
    return document


def _of_file(document: Mapping[str, Any], token: str | None, tenant: str | None) -> Connection:
    return Connection(str(document["url"]), token or document["token"], tenant or str(document["tenant"]))
