"""Makes the pages of docs/sql/ from the statements and their plans."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
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

What each statement of `orchestrator/` locks, writes and reads is in [one list](locks-and-indexes.md), so
that a change of a plan or of a lock is seen where changes are read. `make sql` (`python -m sql_pages`) writes
the list from the code, and a page for each room to `docs/sql/pages/`, which is not kept in the repository. A
page shows the statements as they are sent, laid out for reading:

- the name: the constant, or the function that composes the statement (then with typical arguments)
- what the sender does, in a sentence, and the comment that stands above the constant
- the function that sends it; the rows it locks beside those it changes; the tables it writes
- the indexes that its plan reads, on PostgreSQL {major} in an empty database and for any parameters, with the
  session options of `orchestrator/store/database.py`; indexes of partitions have their parents' names

`:name` is a parameter. `runs_yyyy_mm` is a month's partition.

A test compares the list with the code (`tests/database/sql_pages/test_pages.py`); another one fails for a
statement that is on no page.

| page of | statements |
|---|---|
{rooms}
"""


LIST = "locks-and-indexes.md"
KEPT = ("README.md", LIST)
"""The files that the repository keeps."""


def pages(database: Database) -> dict[str, str]:
    """Path in docs/sql/ -> content of every file.

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
        facts = {each: _facts(each, plans) for each in listed}
    made = {f"pages/{room}.md": _page(room, members, by_name, facts) for room, members in rooms.items()}
    lines = [f"| `{room}` | {len(members)} |" for room, members in rooms.items()]
    readme = _README.format(major=MAJOR, rooms="\n".join(lines)).lstrip()
    return made | {"README.md": readme, LIST: _list(rooms, facts)}


def write(made: dict[str, str], folder: Path = FOLDER) -> None:
    """Write the pages, and remove those that are no longer made."""
    (folder / "pages").mkdir(parents=True, exist_ok=True)
    for path in folder.rglob("*.md"):
        if path.relative_to(folder).as_posix() not in made:
            path.unlink()
    for name, content in made.items():
        (folder / name).write_text(content)


def _place(by_name: dict[str, Module], statement: Statement) -> tuple[str, int]:
    module, name = statements.split(by_name, statement.name)
    return module.name, module.line(name)


Facts = Mapping[Statement, Mapping[str, str]]


def _facts(statement: Statement, plans: Plans) -> dict[str, str]:
    """What a statement locks, writes and reads; only what there is."""
    facts = {
        "Locks": ", ".join(locks.locked(statement.sql)),
        "Writes": ", ".join(locks.written(statement.sql)),
        "Reads": ", ".join(plans.indexes(statement.sql)),
    }
    return {name: _without_month(fact) for name, fact in facts.items() if fact}


def _list(rooms: Mapping[str, Sequence[Statement]], facts: Facts) -> str:
    """All statements with what they lock, write and read."""
    parts = ["# What statements lock, write and read", "Written by `make sql`; see [the pages](README.md)."]
    for room, members in rooms.items():
        lines = []
        for each in members:
            said = [f"{name.lower()} {fact}" for name, fact in facts[each].items()]
            name = f"`{each.name}`" + (f" ({_without_month(each.variant)})" if each.variant else "")
            lines.append(": ".join([f"- {name}", *(["; ".join(said)] if said else [])]))
        parts += [f"## {room}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def _page(room: str, members: Sequence[Statement], by_name: dict[str, Module], facts: Facts) -> str:
    parts = [f"# SQL of `{room}`"]
    for module, its_own in groupby(members, key=lambda each: statements.split(by_name, each.name)[0]):
        parts.append(f"## {module.name.partition('.')[2] or module.name}")
        for name, texts in groupby(its_own, key=lambda each: each.name):
            parts.append(f"### `{statements.split(by_name, name)[1]}`")
            parts += _section(list(texts), facts)
    return "\n\n".join(parts) + "\n"


def _section(texts: Sequence[Statement], facts: Facts) -> list[str]:
    first = texts[0]
    parts = [_filled(first.does)]
    if first.why:
        parts.append(_filled(first.why, "> "))
    for statement in texts:
        said = {
            "Arguments": statement.variant,
            "Sent by": ", ".join(f"`{each}`" for each in statement.senders),
            "Sent after, in the same round trip": statement.after and f"`{statement.after}`",
            **facts[statement],
        }
        lines = [_filled(f"- {name}: {fact}", "", "  ") for name, fact in said.items() if fact]
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
