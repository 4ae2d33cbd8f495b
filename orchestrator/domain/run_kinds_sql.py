"""SQL: runs without a parent, and child runs. Each of the two has indexes of its own (pure)."""

from __future__ import annotations

# SQL: whether the run `r` has no parent, and whether it has one.
TOP = "r.parent_run_id IS NULL"
INSIDE = "r.parent_run_id IS NOT NULL"
_BOTH = TOP, INSIDE
# Child runs of a whole pipeline: those of a body have its id, but other steps.
_INSIDE_WHOLE = f"{INSIDE} AND r.body IS NULL"

# SQL: that the run `r` is one of the pipeline :pipeline, and the orders of such runs by their ids. A range of
# one id, and an order that names the pipeline, too: of `=` PostgreSQL may think that most runs are of this
# pipeline, as of the one that runs most, and read all runs of a tenant in the order of their ids.
OF_PIPELINE = "r.pipeline_id BETWEEN :pipeline AND :pipeline"
NEWEST_OF_PIPELINE, OLDEST_OF_PIPELINE = "r.pipeline_id DESC, r.id DESC", "r.pipeline_id, r.id"


def of_both(part: str) -> str:
    """SQL: what a SELECT gives of either kind of runs, each by its own index.

    Args:
        part: of rows `r`, with an order and a limit, and with `{kind}` among its conditions.
    """
    return " UNION ALL ".join(f"({part.replace('{kind}', each)})" for each in _BOTH)


def of_whole(part: str) -> str:
    """SQL: what a SELECT gives of the runs that run all of a pipeline, as `of_both`."""
    return " UNION ALL ".join(f"({part.replace('{kind}', each)})" for each in (TOP, _INSIDE_WHOLE))


def by_kind(condition: str) -> list[str]:
    """SQL: a condition on runs `r`, as one condition for each of the two kinds."""
    return [f"{condition} AND {each}" for each in _BOTH]
