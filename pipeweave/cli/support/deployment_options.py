"""Collect the settings of the deployment that an operator's command works on."""

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
    """Add the flags --database-url and --data-dir to a command, and pass it the deployment's `settings`."""

    @click.option("--database-url", help="postgresql://user:password@host:port/database")
    @data_dir_option
    @functools.wraps(command)
    def with_settings(*, database_url: str | None, data_dir: Path | None, **given: Any) -> Any:
        return command(settings=settings_of(load(), database_url, data_dir), **given)

    return with_settings


def settings_of(settings: Settings, database_url: str | None, data_dir: Path | None) -> Settings:
    """Complete the settings from the connection.json of `data_dir`, or of the stack that runs in this folder.

    Raises:
        InvalidInput, InvalidSetting, Unavailable: as `resolve_database`.
    """
    url = resolve_database(settings, database_url, data_dir)
    folder = data_dir or Path(settings.data_dir)
    if not (folder / FILE_NAME).exists():
        return replace(settings, database_url=url)
    document = read(folder)
    if url != document["databaseUrl"]:
        # The stack that runs in this folder is another deployment.
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
