"""Seals the secrets in rows anew, with the key in use, so that earlier keys can be removed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pipeweave.errors import InvalidSetting
from pipeweave.orchestrator.security import sealed_texts
from pipeweave.orchestrator.store.database import Database, Transaction

BATCH = 200


@dataclass(frozen=True, slots=True)
class SealedColumn:
    """A column with sealed texts. Each room has `SEALED` in its `sealed_columns`, over tables of its own.

    Args:
        key: the columns of the primary key.
        purpose: an expression over the row `t`: what its text is sealed for.
    """

    table: str
    column: str
    key: tuple[str, ...]
    purpose: str

    @property
    def name(self) -> str:
        """What people see."""
        return f"{self.table}.{self.column}"

    @property
    def place(self) -> str:
        """The expression of the primary key, as a list of texts."""
        return f"ARRAY[{', '.join(f'CAST(t.{each} AS text)' for each in self.key)}]"

    @property
    def is_old(self) -> str:
        """The condition that a row has a text that begins otherwise than `:prefix`."""
        return f"t.{self.column} IS NOT NULL AND NOT starts_with(t.{self.column}, :prefix)"


@dataclass(slots=True)
class Rewrapped:
    """What was done.

    Args:
        count: texts that were sealed anew.
        unreadable: rows whose text no key opens, as `table.column key`; they are left alone.
        last: the key of the last row that was looked at; None when no more are left.
    """

    count: int = 0
    unreadable: list[str] = field(default_factory=list)
    last: list[str] | None = None


def rewrap(
    database: Database, secret_key: str, columns: Iterable[SealedColumn], *, batch: int = BATCH
) -> Rewrapped:
    """Seal all texts anew that are not sealed with the first key, some rows in each transaction.

    It may be stopped at any time, and begins again with what is left.
    """
    total = Rewrapped()
    for column in columns:
        after: list[str] | None = []
        while after is not None:
            done = database.run(partial(_batch, secret_key, column, after, batch))
            total.count += done.count
            total.unreadable += done.unreadable
            after = done.last
    return total


def count_old(tx: Transaction, secret_key: str, columns: Iterable[SealedColumn]) -> dict[str, int]:
    """How many texts are not sealed with the first key, by column; columns without any are left out."""
    counts: dict[str, int] = {}
    for each in columns:
        statement = f"SELECT count(*) FROM {each.table} AS t WHERE {each.is_old}"
        counts[each.name] = tx.execute(statement, {"prefix": sealed_texts.prefix(secret_key)}).scalar_one()
    return {name: count for name, count in counts.items() if count}


def _batch(secret_key: str, column: SealedColumn, after: list[str], batch: int, tx: Transaction) -> Rewrapped:
    rows = _old_rows(tx, column, sealed_texts.prefix(secret_key), after, batch)
    done = Rewrapped(last=rows[-1].key if rows else None)
    for row in rows:
        try:
            text = sealed_texts.open_sealed(secret_key, row.purpose, row.sealed)
        except InvalidSetting:
            done.unreadable.append(f"{column.name} {'/'.join(row.key)}")
            continue
        _store(tx, column, row.key, sealed_texts.seal(secret_key, row.purpose, text))
        done.count += 1
    return done


def _old_rows(tx: Transaction, column: SealedColumn, prefix: str, after: list[str], batch: int) -> list[Any]:
    """Lock the next rows with a text of another key."""
    statement = f"""SELECT {column.place} AS key, t.{column.column} AS sealed, {column.purpose} AS purpose
FROM {column.table} AS t
WHERE {column.is_old} AND {column.place} > CAST(:after AS text[])
ORDER BY 1 LIMIT :batch FOR UPDATE"""
    return list(tx.execute(statement, {"prefix": prefix, "after": after, "batch": batch}).all())


def _store(tx: Transaction, column: SealedColumn, key: list[str], sealed: str) -> None:
    """Replace the text of a row."""
    statement = f"""UPDATE {column.table} AS t SET {column.column} = :sealed
WHERE {column.place} = CAST(:key AS text[])"""
    tx.execute(statement, {"sealed": sealed, "key": key})
