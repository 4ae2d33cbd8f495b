"""Reads the rows of a result; their columns are attributes."""

from __future__ import annotations

import functools
import operator
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from psycopg2.extensions import cursor as Cursor

# A column named like an attribute of tuples, such as `count`, hides it; an invalid name becomes `_0`, `_1`.
_named = functools.partial(namedtuple, "Row", rename=True)
_NAME = operator.attrgetter("name")


class Rows(Protocol):
    """Where a result reads its rows: a cursor, or rows that were kept."""

    description: Any
    rowcount: int

    def fetchone(self) -> tuple[Any, ...] | None: ...

    def fetchall(self) -> list[tuple[Any, ...]]: ...


class Result:
    """The answer to one statement, read once. Rows are tuples, and their columns are attributes.

    Raises:
        LookupError: from `one`, `one_or_none` and their scalars, when the number of rows is another.
        psycopg2.ProgrammingError: the statement returns no rows.
    """

    __slots__ = ("_cursor",)

    def __init__(self, cursor: Cursor | Rows) -> None:
        self._cursor = cursor

    @property
    def rowcount(self) -> int:
        """Rows that were found or changed."""
        return self._cursor.rowcount

    def __iter__(self) -> Iterator[Any]:
        return map(self._row(), self._cursor.fetchall())

    def all(self) -> list[Any]:
        """Every row."""
        return list(self)

    def first(self) -> Any | None:
        """The first row, whether or not there are more; None without any."""
        row = self._cursor.fetchone()
        return None if row is None else self._row()(row)

    def one_or_none(self) -> Any | None:
        """The only row; None without any."""
        self._expect_at_most_one()
        return self.first()

    def one(self) -> Any:
        """The only row."""
        row = self.one_or_none()
        if row is None:
            raise LookupError("a row was expected, there is none")
        return row

    def kept(self) -> tuple[Any, list[tuple[Any, ...]]]:
        """The description of the columns, and the plain rows, to be read more than once."""
        return self._cursor.description, self._cursor.fetchall()

    def scalars(self) -> list[Any]:
        """The first column of every row."""
        return [row[0] for row in self._cursor.fetchall()]

    def scalar_one_or_none(self) -> Any | None:
        """The first column of the only row; None without any."""
        self._expect_at_most_one()
        row = self._cursor.fetchone()
        return None if row is None else row[0]

    def scalar_one(self) -> Any:
        """The first column of the only row."""
        self._expect_at_most_one()
        row = self._cursor.fetchone()
        if row is None:
            raise LookupError("a row was expected, there is none")
        return row[0]

    def _expect_at_most_one(self) -> None:
        if self._cursor.rowcount > 1:
            raise LookupError(f"one row was expected, there are {self._cursor.rowcount}")

    def _row(self) -> Callable[[tuple[Any, ...]], Any]:
        return _row_of(tuple(map(_NAME, self._cursor.description or ())))


@functools.lru_cache(maxsize=512)
def _row_of(names: tuple[str, ...]) -> Callable[[tuple[Any, ...]], Any]:
    """Makes rows with columns of these names; of two equal names the first column has it."""
    return functools.partial(tuple.__new__, _named(names))
