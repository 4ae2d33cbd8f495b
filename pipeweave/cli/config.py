"""`pipeweave config`: show the effective value of every setting and its source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click

from pipeweave.cli.support.connection import data_dir_option, json_option
from pipeweave.cli.support.rendering import show_json, show_table
from pipeweave.cli.support.tables import Column
from pipeweave.settings import SettingRow, explain, load, origin_of, stack_file
from pipeweave.settings.stack_file import StackFile
from pipeweave.settings.table import TABLE

# Setting -> what replaces it when a stack is found.
_FROM_FILE: dict[str, Callable[[StackFile], str]] = {
    "DATABASE_URL": lambda stack: stack.database_url,
    "BROKER_URL": lambda stack: stack.broker_url,
    "PIPEWEAVE_ORCHESTRATOR_URL": lambda stack: stack.url,
    "PIPEWEAVE_API_TOKEN": lambda stack: stack.token,
    "PIPEWEAVE_TENANT": lambda stack: stack.tenant,
    "PIPEWEAVE_DATA_DIR": lambda stack: str(stack.folder),
}


@click.command()
@json_option
@data_dir_option
def config(data_dir: Path | None, as_json: bool) -> None:
    """Show every setting, its value and its source.

    Secrets are masked.
    """
    rows = _with_stack(explain(), data_dir)
    if as_json:
        _print_json(rows)
    else:
        _print_table(rows)


def _with_stack(rows: list[SettingRow], data_dir: Path | None) -> list[SettingRow]:
    """Replace values by those of the stack's connection.json, as every other command does.

    With --data-dir the file overrides the environment; without it, the environment overrides the file.
    """
    stack = stack_file.read(data_dir) if data_dir else stack_file.find(load().data_dir)
    if stack is None:
        return rows
    shown = [_of_stack(row, stack, is_first=data_dir is not None) for row in rows]
    if any(row.name == "DATABASE_URL" and row.source != str(stack.path) for row in shown):
        return shown  # the environment names another deployment, whose settings it sets, too
    return [_of_its_processes(row, stack) for row in shown]


def _of_its_processes(row: SettingRow, stack: StackFile) -> SettingRow:
    """What the processes of the stack were started with, whatever this shell's environment says."""
    if row.name not in stack.settings:
        return row
    setting = next(setting for setting in TABLE if setting.name == row.name)
    text = stack.settings[row.name]
    shown = setting.mask(setting.read(text)) if setting.mask else text
    return replace(row, value=shown, source=str(stack.path))


def _of_stack(row: SettingRow, stack: StackFile, *, is_first: bool) -> SettingRow:
    value = _FROM_FILE[row.name](stack) if row.name in _FROM_FILE else None
    if value is None or not (is_first or row.source == "default"):
        return row
    mask = next(setting.mask for setting in TABLE if setting.name == row.name)
    return replace(row, value=mask(value) if mask else value, source=str(stack.path))


def _print_json(rows: list[SettingRow]) -> None:
    settings = [
        {"name": row.name, "value": row.value, "source": origin_of(row.source), "about": row.about}
        for row in rows
    ]
    show_json({"settings": settings})


def _print_table(rows: list[SettingRow]) -> None:
    show_table(
        ("setting", Column("value", wraps=True, breaks=True), "from"),
        [(row.name, row.value, origin_of(row.source)) for row in rows],
    )
