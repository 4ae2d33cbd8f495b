"""`pipeweave config`: every setting's effective value and where it came from."""

from __future__ import annotations

import click

from pipeweave.settings import SettingRow, explain


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def config(as_json: bool) -> None:
    """Show every setting, its value and where it came from. Secrets are masked."""
    rows = explain()
    if as_json:
        _print_json(rows)
    else:
        _print_table(rows)


def _print_json(rows: list[SettingRow]) -> None:
    import orjson

    settings = [
        {"name": row.name, "value": row.value, "source": row.source, "used": row.is_used, "about": row.about}
        for row in rows
    ]
    click.echo(orjson.dumps({"settings": settings}, option=orjson.OPT_INDENT_2).decode())


def _print_table(rows: list[SettingRow]) -> None:
    shown = [(row.name, _value(row), row.source) for row in rows]
    name_width = max(len(name) for name, _, _ in shown)
    value_width = max(len(value) for _, value, _ in shown)
    for name, value, source in shown:
        click.echo(f"{name:<{name_width}}  {value:<{value_width}}  {source}")


def _value(row: SettingRow) -> str:
    value = row.value if row.value is not None else "-"
    return value if row.is_used else f"{value} (not used yet)"
