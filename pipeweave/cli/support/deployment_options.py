"""The settings of the deployment that an operator's command is about, from flags, environment and files."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pipeweave.cli.support.connection import FILE_NAME, data_dir_option, read, resolve_database
from pipeweave.settings import Settings, load

Command = Callable[..., Any]


def with_deployment(command: Command) -> Command:
    """Give a command the `settings` of a deployment, and the flags that say which one."""

    @click.option("--database-url", help="postgresql://user:password@host:port/database")
    @data_dir_option
    @functools.wraps(command)
    def with_settings(*, database_url: str | None, data_dir: Path | None, **given: Any) -> Any:
        return command(settings=settings_of(load(), database_url, data_dir), **given)

    return with_settings


def settings_of(settings: Settings, database_url: str | None, data_dir: Path | None) -> Settings:
    """The settings, completed by what the stack in `data_dir`, or the one that runs here, says of itself.

    Raises:
        InvalidInput, InvalidSetting, Unavailable: as `resolve_database`.
    """
    url = resolve_database(settings, database_url, data_dir)
    folder = data_dir or Path(settings.data_dir)
    if not (folder / FILE_NAME).exists():
        return replace(settings, database_url=url)
    document = read(folder)
    if url != document["databaseUrl"]:
        # The stack that happens to run here is another deployment.
        return replace(settings, database_url=url)
    return replace(
        settings,
        database_url=url,
        broker_url=str(document["brokerUrl"]),
        tenant=str(document["tenant"]),
        orchestrator_url=str(document["url"]),
        api_token=str(document["token"]),
        data_dir=str(folder),
    )
