"""Collect the settings of the deployment that an operator's command works on."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import click

from pipeweave.cli.support.connection import Command, data_dir_option
from pipeweave.settings import connecting, load


def with_deployment(command: Command) -> Command:
    """Add the flags --database-url and --data-dir to a command, and pass it the deployment's `settings`."""

    @click.option("--database-url", help="postgresql://user:password@host:port/database")
    @data_dir_option
    @functools.wraps(command)
    def with_settings(*, database_url: str | None, data_dir: Path | None, **options: Any) -> Any:
        settings = connecting.deployment(load(), database_url=database_url, data_dir=data_dir)
        return command(settings=settings, **options)

    return with_settings
