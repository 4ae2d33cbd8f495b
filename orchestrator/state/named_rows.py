"""Names task runs of a run in SQL, each to be read by its whole key (run_id, id), however wide the run is.

A process plans a statement once, for all parameters, and keeps the plan. PostgreSQL does not know then how
many ids it will get, and takes what it has seen of other runs, perhaps of one task run each, for the width of
this one. It would read the whole run and drop what was not named: for `id = ANY(list)` before PostgreSQL 17,
for a join with the list in every version. So the list is joined, and two conditions that say nothing new make
the whole key the cheapest way by far:

- `(n.id = n.id) IS TRUE`: PostgreSQL expects it of one row in 200, and so one row of a list.
- `run_id IN (:run_id, :run_id)`: PostgreSQL expects the rows of two runs, and it reads one.

A statement that names hundreds at once is joined by hash instead (`store/statements.py`).

tests/database/engine/test_width.py counts the rows on the oldest and the newest PostgreSQL.
"""

from __future__ import annotations

# A FROM item: the ids that a statement names. They must be in their order, which is the order of locks.
NAMED = "unnest(CAST(:ids AS uuid[])) AS n(id)"


def by_key(id: str = "n.id", row: str = "t") -> str:
    """SQL: `row` is the task run of the run `:run_id` whose id is `id`.

    Args:
        id: a column of a list, as NAMED is one; never NULL.
        row: the alias of `task_runs`.
    """
    return f"{row}.run_id IN (:run_id, :run_id) AND {row}.id = {id} AND ({id} = {id}) IS TRUE"
