"""What a statement locks and writes is read from its text."""

from __future__ import annotations

from sql_pages.locks import locked, written


def test_a_lock_names_the_table_of_its_own_query() -> None:
    assert locked("SELECT 1 FROM runs AS r WHERE r.id = (SELECT x FROM tasks) FOR UPDATE") == [
        "rows of `runs` (`FOR UPDATE`)"
    ]


def test_a_lock_of_an_alias_names_its_table() -> None:
    sql = "SELECT 1 FROM behind AS b JOIN task_runs AS t ON true FOR UPDATE OF t SKIP LOCKED"
    assert locked(sql) == ["rows of `task_runs` (`FOR UPDATE SKIP LOCKED`)"]


def test_an_advisory_lock_is_one_and_its_release_is_none() -> None:
    assert locked("SELECT pg_try_advisory_lock(:lock)") == ["an advisory lock (`pg_try_advisory_lock`)"]
    assert locked("SELECT pg_advisory_unlock(:lock)") == []


def test_locks_and_conflict_actions_are_no_writes() -> None:
    sql = "INSERT INTO a (b) SELECT 1 FROM c FOR NO KEY UPDATE ON CONFLICT (b) DO UPDATE SET b = 2"
    assert written(sql) == ["`a` (`INSERT`)"]
