"""Work that rests between two looks, each database of a process for itself."""

from __future__ import annotations

from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.rest import Rest


def a_database() -> Database:
    """Nothing is asked of it."""
    return Database("postgresql://nobody@127.0.0.1:1/none", pool_size=0)


def test_work_looks_at_once_and_again_when_its_rest_is_over() -> None:
    now = 100.0
    rest, database = Rest(clock=lambda: now), a_database()
    assert rest.is_over(database)
    rest.begin(database, 60)
    now = 159.0
    assert not rest.is_over(database)
    now = 160.0
    assert rest.is_over(database)


def test_the_work_of_one_database_does_not_rest_for_that_of_another() -> None:
    rest, one, other = Rest(), a_database(), a_database()
    rest.begin(one, 60)
    assert (rest.is_over(one), rest.is_over(other)) == (False, True)


def test_the_copies_of_a_database_rest_together() -> None:
    rest, database = Rest(), a_database()
    rest.begin(database.impatient(), 60)
    assert not rest.is_over(database.beside())


def test_one_work_does_not_rest_for_another() -> None:
    database = a_database()
    Rest().begin(database, 60)
    assert Rest().is_over(database), "each declaration is a work of its own"
