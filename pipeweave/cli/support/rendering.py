"""Print results: JSON, tables that fit the terminal, aligned plain lines elsewhere."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support.known_names import require_tenant
from pipeweave.cli.support.tables import GAP, Column, TableLayout, fold, lay_out, letters, shortened
from pipeweave.safe_text import one_line

if TYPE_CHECKING:
    from pipeweave.client import Client, Page

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
Cell = Callable[[Mapping[str, Any]], Any]
Cells = Mapping[Column, Cell] | Mapping[str, Cell]
_NUMBER = re.compile(r"[\d,.]+( (%|s|ms))?\Z")


def is_terminal() -> bool:
    """True if stdout is a terminal; only then are colours and live tables used."""
    return sys.stdout.isatty()


def show_json(value: Any) -> None:
    """Print one JSON document on stdout."""
    import orjson

    click.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode())


def width() -> int:
    """The number of columns of the terminal; 80 where it does not say."""
    return shutil.get_terminal_size().columns


def show_table(columns: Sequence[Column | str], rows: Iterable[Sequence[Any]], *, none: str = "none") -> None:
    """Print a table that fits the terminal, aligned plain lines elsewhere, or `none` without rows.

    Args:
        columns: the headings; a `Column` also says how it gives way on a narrow terminal.
        rows: a value for each column.
        none: what to print if there are no rows.
    """
    shown = [[text(cell) for cell in row] for row in rows]
    named = [each if isinstance(each, Column) else Column(each) for each in columns]
    if not shown:
        click.echo(none)
    elif is_terminal():
        _on_terminal(named, shown)
    else:
        _plain_lines([[column.name.upper() for column in named], *shown])


def show_answer(answer: Any, as_json: bool, show: str | Callable[[Any], object]) -> None:
    """Print an answer of the API as JSON, or else a line, or what `show` prints of it."""
    if as_json:
        show_json(answer)
    elif isinstance(show, str):
        click.echo(text(show))
    else:
        show(answer)


def show_list(
    name: str,
    rows_or_page: Sequence[Mapping[str, Any]] | Page,
    cells: Cells,
    *,
    as_json: bool,
    none: str = "none",
    client: Client | None = None,
    **more: Any,
) -> None:
    """Print a list as JSON `{name: [...], ...more}`, or as a table; `cells` maps columns to cell values.

    Args:
        rows_or_page: the rows, or a page of them, which prints the cursor of the next page, too.
        client: who asked for what its tenant has: an empty table says so when there is no such tenant.

    Raises:
        NotFound: the table is empty, and there is no such tenant.
    """
    rows: Sequence[Mapping[str, Any]]
    if isinstance(rows_or_page, Sequence):
        rows = rows_or_page
    else:
        rows, more["nextCursor"] = rows_or_page.items, rows_or_page.next_cursor
    if as_json:
        show_json({name: rows, **more})
        return
    if client is not None and not rows:
        require_tenant(client)
    show_table(tuple(cells), [[cell(each) for cell in cells.values()] for each in rows], none=none)
    if cursor := more.get("nextCursor"):
        click.echo(f"More: --cursor {cursor}", err=True)


def moment(name: str, drop: int = 0) -> Column:
    """A column of times: `2026-11-20 12:00:00`, on a narrow terminal `11-20 12:00`."""
    return Column(name, drop=drop, short=lambda shown: shown[5:16] if shown[4:5] == "-" else shown)


def field(name: str) -> Callable[[Mapping[str, Any]], Any]:
    """A cell that shows a field unchanged."""
    return lambda each: each.get(name)


def show_fields(fields: Iterable[tuple[str, Any]]) -> None:
    """Print one object: a line for each field that has a value; on a terminal, long texts continue below."""
    shown = [(name, text(value)) for name, value in fields if value is not None]
    indent = max((len(name) for name, _ in shown), default=0) + len(GAP)
    for name, value in shown:
        # JSON stays in one piece, to be copied.
        is_text = is_terminal() and not value.startswith(("{", "[", '"'))
        lines = fold(value, max(width() - indent, 1)) if is_text else [value]
        click.echo(f"{name:<{indent}}{_coloured(lines[0])}")
        for line in lines[1:]:
            click.echo(" " * indent + line)


def text(value: Any) -> str:
    """Write a value in one line; control characters are replaced, since a terminal might obey them."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or NOTHING
    if isinstance(value, float):
        return f"{value:,.1f}"
    return one_line(str(value))


def when(stamp: str | None) -> str:
    """Format a timestamp of the API for people, in UTC."""
    if not stamp:
        return NOTHING
    return datetime.fromisoformat(stamp).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def took(
    started: str | None, finished: str | None, now: datetime | None = None, *, over_ms: float = 0
) -> str:
    """Format the time between start and end, or since the start if there is no end; without `over_ms`, that
    in which the run was over before a retry reopened it.
    """
    if not started:
        return NOTHING
    end = datetime.fromisoformat(finished) if finished else (now or datetime.now(UTC))
    return seconds((end - datetime.fromisoformat(started)).total_seconds() - over_ms / 1_000)


def run_took(run: Mapping[str, Any], now: datetime | None = None) -> str:
    """Format how long a run took, or takes until now, without the time that it was over before a retry
    reopened it.
    """
    if run.get("finishedAt") and run.get("durationMs") is not None:
        return seconds(run["durationMs"] / 1000)
    return took(run.get("startedAt"), run.get("finishedAt"), now, over_ms=run.get("overMs") or 0)


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
    for line in _aligned(rows, [max(map(letters, column)) for column in zip(*rows, strict=True)]):
        click.echo(line)


def _aligned(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """The rows as lines of these widths; the first row holds the headings."""
    sides = [_side(column[1:]) for column in zip(*rows, strict=True)]
    return [
        GAP.join(_padded(*each) for each in zip(row, sides, widths, strict=True)).rstrip() for row in rows
    ]


def _padded(cell: str, side: str, size: int) -> str:
    blank = " " * (size - letters(cell))
    return blank + cell if side == ">" else cell + blank


def _side(cells: Iterable[str]) -> str:
    """Align columns of numbers to the right."""
    filled_cells = [cell for cell in cells if cell != NOTHING]
    return ">" if filled_cells and all(map(_NUMBER.match, filled_cells)) else "<"


# --- on a terminal ----------------------------------------------------------------------------------------


def _on_terminal(columns: Sequence[Column], rows: list[list[str]]) -> None:
    layout = lay_out(columns, rows, width())
    if layout is None:
        _blocks(columns, rows)
        return
    kept = [columns[index] for index in layout.shown]
    cells = shortened(columns, rows) if layout.is_short else rows
    shown = [[row[index] for index in layout.shown] for row in cells]
    sides = [_side(column) for column in zip(*shown, strict=True)]
    heading = [
        _padded(column.heading(is_short=layout.is_short), side, size)
        for column, side, size in zip(kept, sides, layout.widths, strict=True)
    ]
    click.secho(GAP.join(heading).rstrip(), bold=True)
    for row in shown:
        _print_row(row, kept, sides, layout)
    if len(kept) < len(columns):
        hidden = ", ".join(column.name.upper() for i, column in enumerate(columns) if i not in layout.shown)
        note = fold(f"Not shown on this narrow terminal: {hidden}", width())
        click.secho("\n".join(note), fg="bright_black")


def _print_row(
    row: Sequence[str], columns: Sequence[Column], sides: Sequence[str], layout: TableLayout
) -> None:
    """Print a row, on several lines if a text is wider than its column."""
    folded = [
        fold(cell, size, breaks=column.breaks) if letters(cell) > size else [cell]
        for cell, size, column in zip(row, layout.widths, columns, strict=True)
    ]
    for number in range(max(map(len, folded))):
        line = [
            _styled(cell, _padded(lines[number] if number < len(lines) else "", side, size))
            for cell, lines, side, size in zip(row, folded, sides, layout.widths, strict=True)
        ]
        click.echo(GAP.join(line).rstrip())


def _styled(cell: str, padded: str) -> str:
    return click.style(padded, fg=STYLES[cell]) if cell in STYLES else padded


def _blocks(columns: Sequence[Column], rows: list[list[str]]) -> None:
    """Print each row as a block of lines, with a blank line in between."""
    for number, row in enumerate(rows):
        if number:
            click.echo()
        show_fields((column.name, cell) for column, cell in zip(columns, row, strict=True))


def show_warnings(accepted: Mapping[str, Any], where: str = "") -> None:
    """Print on stderr the warnings of the entry tasks' input schemas about an accepted run."""
    for task, faults in (accepted.get("validationWarnings") or {}).items():
        for each in faults:
            click.echo(text(f"warning: {where}{task}: {each['field']}: {each['message']}"), err=True)
