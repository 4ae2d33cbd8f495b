"""Schemas of tests: up to a revision, and as the catalogue describes them, so that two can be compared."""

from __future__ import annotations

from pipeweave.orchestrator.deployment.schema_history import SchemaHistory
from pipeweave.orchestrator.store.database import Transaction

_MINE = """NOT c.relispartition AND c.relnamespace = 'public'::regnamespace
    AND c.relname NOT LIKE 'schema_migrations%'"""

_STATEMENTS = (
    f"""SELECT 'column ' || c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
        || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
        || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '')
    FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
    WHERE {_MINE} AND c.relkind IN ('r', 'p')""",
    f"""SELECT 'options ' || c.relname || ' ' || c.relkind::text || coalesce(c.reloptions::text, '')
    FROM pg_class AS c WHERE {_MINE}""",
    f"""SELECT 'constraint ' || c.relname || ' ' || k.conname || ' ' || pg_get_constraintdef(k.oid)
    FROM pg_constraint AS k JOIN pg_class AS c ON c.oid = k.conrelid WHERE {_MINE}""",
    """SELECT 'domain ' || t.typname || ' ' || pg_get_constraintdef(k.oid)
    FROM pg_constraint AS k JOIN pg_type AS t ON t.oid = k.contypid
    WHERE t.typnamespace = 'public'::regnamespace""",
    f"""SELECT 'index ' || pg_get_indexdef(i.indexrelid)
    FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indrelid WHERE {_MINE}""",
    f"""SELECT 'trigger ' || pg_get_triggerdef(t.oid)
    FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid WHERE {_MINE} AND NOT t.tgisinternal""",
    "SELECT 'function ' || pg_get_functiondef(p.oid) FROM pg_proc AS p"
    " WHERE p.pronamespace = 'public'::regnamespace",
)


def described(tx: Transaction) -> list[str]:
    """Columns, options, constraints, domains, indexes, triggers and functions, sorted; without partitions
    and without the table of the version.
    """
    lines = (line for statement in _STATEMENTS for line in tx.execute(statement).scalars())
    # What is not valid holds for new rows: old ones may be of a newer schema.
    return sorted(line.removesuffix(" NOT VALID") for line in lines)


def steps_up(tx: Transaction, revision: str | None = None) -> None:
    """Apply the migrations up to this one; None for all."""
    history = SchemaHistory()
    for each in history.revisions[len(history.applied(tx)) :]:
        if revision is not None and each > revision:
            return
        history.step_up(tx, each)
