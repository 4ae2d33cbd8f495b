"""Laying SQL out changes nothing but its spaces and lines."""

from __future__ import annotations

import re

import pytest

from sql_pages import composed, statements
from sql_pages.layout import WIDTH, laid_out
from sql_pages.statements import Statement


@pytest.fixture(scope="module")
def shown() -> list[Statement]:
    """Every statement of the orchestrator."""
    found = statements.modules()
    return statements.constants(found) + composed.composed(found)


def test_a_statement_keeps_its_words(shown: list[Statement]) -> None:
    changed = [each.name for each in shown if _packed(laid_out(each.sql)) != _packed(each.sql)]
    assert not changed


def test_no_line_is_too_long(shown: list[Statement]) -> None:
    long = [each.name for each in shown for line in laid_out(each.sql).splitlines() if len(line) > WIDTH]
    assert not long


def test_no_statement_has_a_comment_which_would_swallow_what_follows(shown: list[Statement]) -> None:
    assert not [each.name for each in shown if "--" in each.sql]


def test_a_clause_has_a_line_of_its_own_and_a_wide_bracket_is_indented() -> None:
    many = ", ".join("12345678" for _ in range(8))
    sql = f"WITH a AS (SELECT b.c FROM b WHERE b.c = 'x' AND b.d IN ({many})) SELECT * FROM a"
    assert laid_out(sql).splitlines() == [
        "WITH a AS (",
        "    SELECT b.c",
        "    FROM b",
        "    WHERE b.c = 'x'",
        "        AND b.d IN (12345678, 12345678, 12345678, 12345678, 12345678, 12345678, 12345678, 12345678)",
        ")",
        "SELECT *",
        "FROM a",
    ]


def _packed(sql: str) -> str:
    return re.sub(r"\s", "", sql)
