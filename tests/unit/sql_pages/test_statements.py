"""The statements are found in the source, with their senders."""

from __future__ import annotations

import ast
from types import ModuleType

import pytest

from sql_pages.statements import Call, Module, calls, sentence

SOURCE = '''
_ONE = "SELECT 1"
_LOCK = "SELECT 1 FOR UPDATE"
_TABLE = "SELECT 1 FROM {table}"

def plain(tx):
    """Look. It is quick."""
    tx.execute(_ONE, lock=_LOCK)

def through(tx):
    return _rows(tx, _ONE)

def _rows(tx, statement):
    return tx.execute(statement)

def composed(tx, table):
    tx.execute(_TABLE.format(table=table))

def other(redis):
    redis.execute("GET a")
'''


@pytest.fixture
def module() -> Module:
    """A module that sends statements in several ways."""
    loaded = ModuleType("room.verbs")
    exec(SOURCE, vars(loaded))
    return Module("room.verbs", loaded, ast.parse(SOURCE), SOURCE.splitlines())


def senders(module: Module, name: str) -> list[str]:
    return [call.sender for call in calls(module) if call.name == name]


def test_a_constant_is_sent_by_the_function_that_executes_it(module: Module) -> None:
    assert senders(module, "room.verbs._LOCK") == ["room.verbs.plain"]


def test_a_constant_that_is_handed_on_is_sent_by_the_function_that_hands_it_on(module: Module) -> None:
    assert senders(module, "room.verbs._ONE") == ["room.verbs.plain", "room.verbs.through"]


def test_a_statement_knows_the_lock_that_goes_before_it(module: Module) -> None:
    first = next(call for call in calls(module) if call.name == "room.verbs._ONE")
    assert first.after == "room.verbs._LOCK"


def test_a_text_that_a_function_makes_has_no_name(module: Module) -> None:
    nameless: list[Call] = [call for call in calls(module) if not call.name]
    assert [call.sender for call in nameless] == ["room.verbs.composed"]


def test_a_function_without_a_docstring_is_described_by_its_caller(module: Module) -> None:
    assert sentence(module, "plain") == "Look."
