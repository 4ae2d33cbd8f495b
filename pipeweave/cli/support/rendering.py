"""Print results: JSON, tables on a terminal, aligned plain lines elsewhere."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

STYLES = {
    "completed": "green",
    "running": "cyan",
    "partial": "yellow",
    "skipped": "bright_black",
    "waiting": "magenta",
    "failed": "red",
    "timeout": "red",
    "cancelled": "yellow",
}
NOTHING = "-"
_NUMBER = re.compile(r"[\d,.]+( (%|s|ms))?\Z")


def is_terminal() -> bool:
    """True if stdout is a terminal; only then are colours and live tables used."""
    return sys.stdout.isatty()


def show_json(value: Any) -> None:
    """Print one JSON document on stdout."""
    import orjson

    click.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode())


def show_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, none: str = "none") -> None:
    """Print a table on a terminal, aligned plain lines elsewhere, and `none` if there are no rows."""
    shown = [[text(cell) for cell in row] for row in rows]
    if not shown:
        click.echo(none)
    elif is_terminal():
        _rich_table(columns, shown)
    else:
        _plain_lines([[column.upper() for column in columns], *shown])


def show_list(
    name: str,
    found: Sequence[Mapping[str, Any]],
    cells: Mapping[str, Callable[[Mapping[str, Any]], Any]],
    *,
    as_json: bool,
    none: str = "none",
    **more: Any,
) -> None:
    """Print a list as JSON `{name: [...], ...more}`, or as a table; `cells` maps columns to cell values."""
    if as_json:
        show_json({name: found, **more})
    else:
        show_table(tuple(cells), [[cell(each) for cell in cells.values()] for each in found], none=none)


def field(name: str) -> Callable[[Mapping[str, Any]], Any]:
    """A cell that shows a field unchanged."""
    return lambda each: each.get(name)


def show_fields(fields: Iterable[tuple[str, Any]]) -> None:
    """Print one object: a line for each field that has a value."""
    shown = [(name, text(value)) for name, value in fields if value is not None]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        click.echo(f"{name:<{width}}  {_coloured(value)}")


def text(value: Any) -> str:
    """Write a value in one line; control characters are replaced, since a terminal might obey them."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or NOTHING
    if isinstance(value, float):
        return f"{value:,.1f}"
    line = " ".join(str(value).split())
    return "".join(letter if letter.isprintable() else "?" for letter in line)


def when(stamp: str | None) -> str:
    """Format a timestamp of the API for people, in UTC."""
    if not stamp:
        return NOTHING
    return datetime.fromisoformat(stamp).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def took(started: str | None, finished: str | None, now: datetime | None = None) -> str:
    """Format the time between start and end, or since the start if there is no end."""
    if not started:
        return NOTHING
    end = datetime.fromisoformat(finished) if finished else (now or datetime.now(UTC))
    return seconds((end - datetime.fromisoformat(started)).total_seconds())


def seconds(duration: float) -> str:
    """Format a duration in seconds with a fitting unit."""
    if duration < 1:
        return f"{max(duration, 0) * 1000:.0f} ms"
    if duration < 100:
        return f"{duration:.1f} s"
    minutes, rest = divmod(int(duration), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _coloured(value: str) -> str:
    return click.style(value, fg=STYLES[value]) if value in STYLES and is_terminal() else value


def _plain_lines(rows: list[list[str]]) -> None:
    columns = list(zip(*rows, strict=True))
    formats = [f"{{:{_side(column[1:])}{max(map(len, column))}}}" for column in columns]
    for row in rows:
        cells = (each.format(cell) for each, cell in zip(formats, row, strict=True))
        click.echo("  ".join(cells).rstrip())


def _side(cells: Iterable[str]) -> str:
    """Align columns of numbers to the right."""
    given = [cell for cell in cells if cell != NOTHING]
    return ">" if given and all(map(_NUMBER.match, given)) else "<"


def _rich_table(columns: Sequence[str], rows: list[list[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name, cells in zip(columns, zip(*rows, strict=True), strict=True):
        table.add_column(name, justify="right" if _side(cells) == ">" else "left")
    for row in rows:
        table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
    Console().print(table)


def show_warnings(accepted: Mapping[str, Any], where: str = "") -> None:
    """Print on stderr the warnings of the entry tasks' input schemas about an accepted run."""
    for task, faults in (accepted.get("validationWarnings") or {}).items():
        for each in faults:
            click.echo(text(f"warning: {where}{task}: {each['field']}: {each['message']}"), err=True)
