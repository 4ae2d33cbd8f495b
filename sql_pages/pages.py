"""Makes the pages of docs/sql/ from the statements and their plans."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from pipeweave.orchestrator.store.database import Database
from sql_pages import composed, locks, statements
from sql_pages.composed import MONTH
from sql_pages.layout import WIDTH, laid_out
from sql_pages.plans import MAJOR, Plans
from sql_pages.statements import Module, Statement

FOLDER = Path(__file__).parent.parent / "docs" / "sql"

_README = """
# Every SQL statement

Each page shows the statements of one room of `orchestrator/` as they are sent, laid out for reading:

- the name: the constant, or the function that composes the statement (then with typical arguments)
- what the sender does, in a sentence, and the comment that stands above the constant
- the function that sends it; the rows it locks beside those it changes; the tables it writes
- the indexes that its plan reads, on PostgreSQL {major} in an empty database and for any parameters, with the
  session options of `orchestrator/store/database.py`; indexes of partitions have their parents' names

`:name` is a parameter. `runs_yyyy_mm` is a month's partition.

The pages are written by `make sql` (`python -m sql_pages`) from the code. A test compares them with it
(`tests/database/sql_pages/test_pages.py`), and fails for a statement that is on no page.

| room | statements |
|---|---|
{rooms}
"""


def pages(database: Database) -> dict[str, str]:
    """File name -> content of every page.

    Args:
        database: migrated and empty; it gets the partitions of a month that is over.
    """
    found = statements.modules()
    by_name = {module.name: module for module in found}
    listed = sorted(
        statements.constants(found) + composed.composed(found), key=lambda each: _place(by_name, each)
    )
    rooms = {room: list(members) for room, members in groupby(listed, key=lambda each: each.room)}
    with database.transaction() as tx:
        plans = Plans(tx)
        made = {f"{room}.md": _page(room, members, by_name, plans) for room, members in rooms.items()}
    lines = [f"| [{room}]({room}.md) | {len(members)} |" for room, members in rooms.items()]
    return made | {"README.md": _README.format(major=MAJOR, rooms="\n".join(lines)).lstrip()}


def write(made: dict[str, str], folder: Path = FOLDER) -> None:
    """Write the pages, and remove those that are no longer made."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.md"):
        if path.name not in made:
            path.unlink()
    for name, content in made.items():
        (folder / name).write_text(content)


def _place(by_name: dict[str, Module], statement: Statement) -> tuple[str, int]:
    module, name = statements.split(by_name, statement.name)
    return module.name, module.line(name)


def _page(room: str, members: Sequence[Statement], by_name: dict[str, Module], plans: Plans) -> str:
    parts = [f"# SQL of `{room}`"]
    for module, its_own in groupby(members, key=lambda each: statements.split(by_name, each.name)[0]):
        parts.append(f"## {module.name.partition('.')[2] or module.name}")
        for name, texts in groupby(its_own, key=lambda each: each.name):
            parts.append(f"### `{statements.split(by_name, name)[1]}`")
            parts += _section(list(texts), plans)
    return "\n\n".join(parts) + "\n"


def _section(texts: Sequence[Statement], plans: Plans) -> list[str]:
    first = texts[0]
    parts = [_filled(first.does)]
    if first.why:
        parts.append(_filled(first.why, "> "))
    for statement in texts:
        facts = {
            "Arguments": statement.variant,
            "Sent by": ", ".join(f"`{each}`" for each in statement.senders),
            "Sent after, in the same round trip": statement.after and f"`{statement.after}`",
            "Locks": ", ".join(locks.locked(statement.sql)),
            "Writes": ", ".join(locks.written(statement.sql)),
            "Reads": ", ".join(plans.indexes(statement.sql)),
        }
        lines = [_filled(f"- {name}: {fact}", "", "  ") for name, fact in facts.items() if fact]
        parts += ["\n".join(lines), f"```sql\n{laid_out(statement.sql)}\n```"]
    return [_without_month(part) for part in parts]


def _without_month(text: str) -> str:
    for name, value in (
        ("_yyyy_mm", f"_{MONTH.year:04}_{MONTH.number:02}"),
        ("<first id of the month>", str(MONTH.first_id)),
        ("<first id of the next month>", str(MONTH.next.first_id)),
    ):
        text = text.replace(value, name)
    return text


def _filled(text: str, first: str = "", rest: str | None = None) -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=first if rest is None else rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
