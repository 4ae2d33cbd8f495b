"""`pipeweave env`: print the variables that connect other programs to the deployment."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from pipeweave.cli.support.connection import data_dir_option, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import show_json
from pipeweave.cli.support.secret_key import deployment_secret
from pipeweave.errors import Unavailable
from pipeweave.settings import Settings, common_texts, connecting, load, stack_file
from pipeweave.settings.table import PREFIX


@click.command(
    epilog=examples('eval "$(pipeweave env)" && celery -A pipeweave.workers.app status'),
)
@click.option(
    "--secret",
    "has_secret",
    is_flag=True,
    help="Also print PIPEWEAVE_SECRET_KEY, for HTTP workers and for processes of other hosts.",
)
@data_dir_option
@json_option
def env(has_secret: bool, data_dir: Path | None, as_json: bool) -> None:
    """Print shell exports that connect to the deployment.

    The names have the prefix PIPEWEAVE_, so that DATABASE_URL and BROKER_URL of your program stay its own.
    They have all that two processes of a deployment must share, such as STORAGE_BACKENDS. The output contains
    the token, the passwords and the credentials of storage. The secret key opens storage tokens and signs
    dispatches: it is printed when it is asked for. HTTP workers need it, and processes beside a deployment
    that has HTTP services; one that finds the folder of a stack reads it there.
    """
    settings = _settings(data_dir)
    variables = {**dict(_variables(settings)), **_shared(settings, data_dir)}
    if has_secret:
        variables["PIPEWEAVE_SECRET_KEY"] = deployment_secret(data_dir).key
    if as_json:
        show_json(variables)
        return
    for name, value in variables.items():
        click.echo(f"export {name}={shlex.quote(value)}")


def _settings(data_dir: Path | None) -> Settings:
    """The settings as a process has them; those of a client if the environment names only the API."""
    settings = load()
    if data_dir is None and settings.orchestrator_url and not settings.database_url:
        return settings
    if data_dir is None and not settings.database_url and not stack_file.find(settings.data_dir):
        raise Unavailable("no deployment is configured", hint=connecting.NO_ORCHESTRATOR)
    return connecting.servers(settings, data_dir)


def _shared(settings: Settings, data_dir: Path | None) -> dict[str, str]:
    """What all processes must share, beside the key: as the stack's have it, or as the environment says."""
    stack = stack_file.read(data_dir) if data_dir else stack_file.find(settings.data_dir)
    is_stack = stack is not None and stack.database_url == settings.database_url
    texts = {} if data_dir else common_texts()
    if stack and is_stack:
        texts = {**common_texts(stack.settings), **texts}
    named = {name if name.startswith(PREFIX) else PREFIX + name: text for name, text in texts.items()}
    return {name: text for name, text in named.items() if name != "PIPEWEAVE_SECRET_KEY"}


def _variables(settings: Settings) -> Iterator[tuple[str, str]]:
    """Prefixed names, because DATABASE_URL and BROKER_URL may belong to the user's program."""
    named = {
        "PIPEWEAVE_ORCHESTRATOR_URL": settings.orchestrator_url,
        "PIPEWEAVE_API_TOKEN": settings.api_token,
        "PIPEWEAVE_TENANT": settings.chosen_tenant,
        "PIPEWEAVE_DATABASE_URL": settings.database_url,
        "PIPEWEAVE_BROKER_URL": settings.broker_url,
        "PIPEWEAVE_DATA_DIR": str(Path(settings.data_dir).absolute()),
    }
    yield from ((name, value) for name, value in named.items() if value)
