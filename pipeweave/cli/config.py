"""`pipeweave config`: show the effective value of every setting and its source."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from pipeweave.cli.support.connection import FILE_NAME, data_dir_option, json_option, read
from pipeweave.cli.support.tables import Column
from pipeweave.settings import SettingRow, explain, load
from pipeweave.settings.table import TABLE

# Setting -> the member of a stack's connection.json that replaces it.
_FROM_FILE = {
    "DATABASE_URL": "databaseUrl",
    "BROKER_URL": "brokerUrl",
    "PIPEWEAVE_ORCHESTRATOR_URL": "url",
    "PIPEWEAVE_API_TOKEN": "token",
    "PIPEWEAVE_TENANT": "tenant",
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
    folder = data_dir or Path(load().data_dir)
    if data_dir is None and not (folder / FILE_NAME).exists():
        return rows
    document = read(folder)
    masks = {setting.name: setting.mask for setting in TABLE}
    shown = []
    for row in rows:
        value = document.get(_FROM_FILE.get(row.name, ""))
        if value is not None and (data_dir is not None or row.source == "default"):
            mask = masks[row.name]
            source = str(folder / FILE_NAME)
            row = replace(row, value=mask(str(value)) if mask else str(value), source=source)
        shown.append(row)
    return shown


def _print_json(rows: list[SettingRow]) -> None:
    from pipeweave.cli.support.rendering import show_json

    settings = [
        {"name": row.name, "value": row.value, "source": row.source, "used": row.is_used, "about": row.about}
        for row in rows
    ]
    show_json({"settings": settings})


def _print_table(rows: list[SettingRow]) -> None:
    from pipeweave.cli.support.rendering import show_table

    show_table(
        ("setting", Column("value", wraps=True), "from"),
        [(row.name, _value(row), row.source) for row in rows],
    )


def _value(row: SettingRow) -> str | None:
    if row.is_used:
        return row.value
    return f"{row.value} (not used yet)" if row.value is not None else "(not used yet)"
