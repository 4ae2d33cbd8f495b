"""What goes into a statement and what comes out of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from pipeweave.orchestrator.state.named_rows import NAMED, by_key
from pipeweave.orchestrator.store.database import Database, Transaction, to_json
from pipeweave.orchestrator.store.silence import Cursor
from pipeweave.orchestrator.store.statements import MANY_NAMES, PREPARE_AFTER

# Sent plainly at first, then prepared.
OFTEN = PREPARE_AFTER + 2


def same_often(tx: Transaction, statement: str, **parameters: Any) -> Any:
    """The only row of a statement, which is the same however it is sent."""
    rows = [tx.execute(statement, parameters).one() for _ in range(OFTEN)]
    assert rows == [rows[0]] * OFTEN
    return rows[0]


# --- rows -------------------------------------------------------------------------------------------------


def test_a_row_is_read_by_name_by_place_and_by_unpacking(tx: Transaction) -> None:
    row = tx.execute("SELECT 1 AS a, 'x' AS b, true AS c").one()
    a, b, c = row
    assert (row.a, row.b, row.c) == (row[0], row[1], row[2]) == (a, b, c) == (1, "x", True)
    assert (row[:2], row[-1], len(row)) == ((1, "x"), True, 3)


def test_columns_may_be_named_like_attributes_of_tuples(tx: Transaction) -> None:
    row = tx.execute('SELECT 1 AS count, 2 AS index, 3 AS "class", 4 AS count, 5').one()
    assert (row.count, row.index, list(row)) == (1, 2, [1, 2, 3, 4, 5])


def test_rows_of_different_statements_have_their_own_names(tx: Transaction) -> None:
    assert tx.execute("SELECT 1 AS a").one().a == 1
    assert not hasattr(tx.execute("SELECT 1 AS b").one(), "a")


NUMBERS = "SELECT n, n * 10 AS tenfold FROM generate_series(1, :most) AS n ORDER BY n"


def test_rows_come_all_one_by_one_or_as_their_first_column(tx: Transaction) -> None:
    assert tx.execute(NUMBERS, {"most": 2}).all() == [(1, 10), (2, 20)]
    assert [row.tenfold for row in tx.execute(NUMBERS, {"most": 3})] == [10, 20, 30]
    assert tx.execute(NUMBERS, {"most": 2}).scalars() == [1, 2]
    assert tx.execute(NUMBERS, {"most": 2}).first() == (1, 10)
    assert tx.execute(NUMBERS, {"most": 1}).scalar_one() == 1
    assert tx.execute(NUMBERS, {"most": 7}).rowcount == 7


def test_no_row_is_none_or_nothing(tx: Transaction) -> None:
    nothing = [tx.execute(NUMBERS, {"most": 0}) for _ in range(5)]
    assert (nothing[0].all(), nothing[1].scalars()) == ([], [])
    assert [nothing[2].first(), nothing[3].one_or_none(), nothing[4].scalar_one_or_none()] == [None] * 3


@pytest.mark.parametrize("rows", [0, 2])
def test_one_refuses_no_row_and_several_rows(tx: Transaction, rows: int) -> None:
    with pytest.raises(LookupError):
        tx.execute(NUMBERS, {"most": rows}).one()
    with pytest.raises(LookupError):
        tx.execute(NUMBERS, {"most": rows}).scalar_one()


def test_more_than_one_row_is_not_one_or_none(tx: Transaction) -> None:
    with pytest.raises(LookupError, match="there are 2"):
        tx.execute(NUMBERS, {"most": 2}).one_or_none()
    with pytest.raises(LookupError, match="there are 2"):
        tx.execute(NUMBERS, {"most": 2}).scalar_one_or_none()


def test_an_answer_is_good_after_the_next_statement(tx: Transaction) -> None:
    first = tx.execute(NUMBERS, {"most": 2})
    assert tx.execute(NUMBERS, {"most": 1}).scalars() == [1]
    assert first.scalars() == [1, 2]


# --- parameters -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        "100 %",
        "%s %(a)s %%",
        "it's",
        'a "b"',
        "\\ \\' \\n",
        "line\nline",
        "ü 漢 🎉",
        ":name ::text",
        "$1",
        "",
        None,
    ],
)
def test_a_text_comes_back_as_it_was_given(tx: Transaction, value: str | None) -> None:
    assert same_often(tx, "SELECT CAST(:value AS text) AS value", value=value).value == value


def test_percent_signs_and_casts_are_those_of_sql(tx: Transaction) -> None:
    statement = (
        "SELECT 7 % 4, 'a%b' LIKE :like, '5'::integer + :n::integer, 'at 12:30:00', '%s', (ARRAY[1,2])[1:1]"
    )
    assert tuple(same_often(tx, statement, like="a\\%_", n="2")) == (3, True, 7, "at 12:30:00", "%s", [1])


def test_percent_signs_stay_without_any_parameter(tx: Transaction) -> None:
    assert tuple(same_often(tx, "SELECT 7 % 4, '100%'")) == (3, "100%")


def test_a_parameter_may_be_named_twice_and_others_not_at_all(tx: Transaction) -> None:
    statement = "SELECT :a::text || :b::text || :a::text AS said"
    assert same_often(tx, statement, a="x", b="y", unused=object()).said == "xyx"


def test_a_parameter_that_is_missing_is_an_error_here(tx: Transaction) -> None:
    with pytest.raises(KeyError, match="b"):
        tx.execute("SELECT :a::text, :b::text", {"a": "x"})


def test_values_have_the_types_of_python(tx: Transaction) -> None:
    at, lasts = datetime(2026, 3, 1, 12, 30, tzinfo=UTC), timedelta(minutes=90)
    id = uuid4()
    statement = """SELECT :id::uuid AS id, :at::timestamptz, :lasts::interval, :yes::boolean, :n::bigint,
        :x::double precision, :none::uuid"""
    row = same_often(tx, statement, id=id, at=at, lasts=lasts, yes=True, n=1 << 40, x=0.5, none=None)
    assert tuple(row) == (id, at, lasts, True, 1 << 40, 0.5, None)
    assert isinstance(row.id, UUID)


@pytest.mark.parametrize("many", [0, 1, 3])
def test_lists_of_uuids_go_in_and_come_back(tx: Transaction, many: int) -> None:
    wanted = [uuid4() for _ in range(many)]
    assert same_often(tx, "SELECT CAST(:ids AS uuid[]) AS ids", ids=wanted).ids == wanted
    statement = "SELECT count(*) FROM unnest(CAST(:ids AS uuid[])) AS id WHERE id = ANY(:ids)"
    assert same_often(tx, statement, ids=wanted)[0] == many


def test_lists_of_numbers_and_times_go_in_and_come_back_with_their_gaps(tx: Transaction) -> None:
    at = datetime(2026, 3, 1, 12, 30, 0, 5, tzinfo=UTC)
    for type_, wanted in (
        ("uuid[]", [uuid4(), None]),
        ("integer[]", [1, -2, None]),
        ("integer[]", [None, 1]),
        ("boolean[]", [True, False]),
        ("double precision[]", [0.5, 1.0]),
        ("timestamptz[]", [at, None]),
    ):
        assert same_often(tx, f"SELECT CAST(:all AS {type_}) AS all_of_them", all=wanted)[0] == wanted


def test_a_prepared_statement_is_sent_no_names_of_types(
    tx: Transaction, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    execute = Cursor.execute

    def record(cursor: Cursor, query: Any, vars: Any = None) -> None:
        sent.append(cursor.mogrify(query, vars).decode())
        execute(cursor, query, vars)

    monkeypatch.setattr(Cursor, "execute", record)
    id, at = uuid4(), datetime(2026, 3, 1, tzinfo=UTC)
    statement = "SELECT :id, :at, CAST(:ids AS uuid[]), CAST(:numbers AS integer[])"
    same_often(tx, statement, id=id, at=at, ids=[id, id], numbers=[1, 2])
    name, _, values = sent[-1].partition("(")
    assert name.startswith("EXECUTE pw_")
    assert values == f"'{id}', '{at.isoformat()}', '{{{id},{id}}}', '{{1,2}}')"


def test_lists_of_texts_go_in_and_come_back(tx: Transaction) -> None:
    wanted = ["a,b", "{c}", 'd"e', "f\\", "%s", "", "NULL", "ü"]
    assert same_often(tx, "SELECT CAST(:all AS text[]) AS all_of_them", all=wanted)[0] == wanted


@pytest.mark.parametrize(
    "value", [{"a": [1, 2.5, None, True], "ü%s": "it's :name"}, [], "text", 9007199254740993, False]
)
@pytest.mark.parametrize("type_", ["json", "jsonb"])
def test_json_comes_back_as_python_values(tx: Transaction, type_: str, value: object) -> None:
    assert same_often(tx, f"SELECT CAST(:value AS {type_}) AS value", value=to_json(value)).value == value


def test_no_json_and_the_json_null_are_both_none(tx: Transaction) -> None:
    assert tuple(same_often(tx, "SELECT CAST(:a AS jsonb), CAST('null' AS jsonb)", a=to_json(None))) == (
        None,
        None,
    )


# --- lists of names ---------------------------------------------------------------------------------------

EXPLAIN = f"EXPLAIN SELECT t.status FROM {NAMED} JOIN task_runs AS t ON {by_key()}"


def way(tx: Transaction, count: int) -> str:
    """How PostgreSQL joins task runs with a list of so many names."""
    plan = tx.execute(EXPLAIN, {"run_id": tx.new_id(), "ids": [tx.new_id() for _ in range(count)]}).all()
    (found,) = {each for each in ("Hash Join", "Nested Loop") for row in plan if each in row[0]}
    return found


def test_few_names_are_looked_up_and_many_are_hashed(database: Database) -> None:
    for transaction in (database.transaction, database.statements):
        with transaction() as tx:
            assert way(tx, MANY_NAMES) == "Nested Loop"
            assert way(tx, MANY_NAMES + 1) == "Hash Join"


@pytest.mark.parametrize("setting", ["enable_nestloop", "enable_hashjoin"])
def test_what_follows_many_names_is_planned_as_before(database: Database, setting: str) -> None:
    for transaction in (database.transaction, database.statements, database.reading):
        with transaction() as tx:
            before = tx.execute(f"SHOW {setting}").scalar_one()
            way(tx, MANY_NAMES + 1)
            assert tx.execute(f"SHOW {setting}").scalar_one() == before
