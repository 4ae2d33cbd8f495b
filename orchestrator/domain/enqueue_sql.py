"""The statements that `pipeweave.enqueue` sends over its caller's own connection.

Each has one parameter, whose place is `{}`: drivers spell it differently. They take no `%` and no `:`, which
drivers read as parameters, and nothing in them depends on the caller's search path.
"""

from __future__ import annotations

# The table, in the schema that PipeWeave's tables lie in.
TABLE = "enqueued_runs"
SCHEMA = "public"

# The columns that a caller fills; a role needs the right to INSERT them, and no other right.
COLUMNS = (
    *("id", "tenant_id", "pipeline_id", "input", "run_token", "failure_mode", "priority", "metadata"),
    "traceparent",
)

# The caller's transaction must not fail because of us: what PostgreSQL would refuse is asked for first. The
# parameter is the schema.
CHECK = f"""
SELECT has_schema_privilege(c.relnamespace, 'USAGE') AND NOT EXISTS (
    SELECT 1 FROM unnest(ARRAY{list(COLUMNS)!r}) AS w (name)
    WHERE NOT has_column_privilege(c.oid, w.name, 'INSERT'))
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relname = '{TABLE}' AND n.nspname = {{}}
"""

# The ids are made here, by PostgreSQL's clock, in the order of the rows; a data-modifying WITH gives them
# back without the right to SELECT from the table. `migrations` has the same expression for single rows.
_ENQUEUE = """
WITH given AS MATERIALIZED (
    SELECT r.*, CAST(extract(epoch FROM statement_timestamp()) * 4096000 AS bigint) + r.number AS ticks
    FROM ROWS FROM (json_to_recordset(CAST({} AS json)) AS (tenant_id text, pipeline_id text, input json,
        run_token text, failure_mode text, priority integer, metadata json, traceparent text))
        WITH ORDINALITY AS r (tenant_id, pipeline_id, input, run_token, failure_mode, priority, metadata,
            traceparent, number)
), rows AS MATERIALIZED (
    SELECT g.*, CAST(lpad(to_hex(g.ticks >> 12), 12, '0') || '7' || lpad(to_hex(g.ticks & 4095), 3, '0')
        || substr(CAST(gen_random_uuid() AS text), 20, 11) || '000000' AS uuid) AS id
    FROM given AS g
), written AS (
    INSERT INTO TABLE_NAME (id, tenant_id, pipeline_id, input, run_token, failure_mode, priority, metadata,
        traceparent)
    SELECT r.id, r.tenant_id, r.pipeline_id, r.input, r.run_token, r.failure_mode, r.priority, r.metadata,
        r.traceparent
    FROM rows AS r
)
SELECT CAST(r.id AS text) FROM rows AS r ORDER BY r.number
"""


def enqueue(schema: str) -> str:
    """The statement that enqueues runs. Its parameter is a JSON list of their columns, without ids.

    Args:
        schema: the schema of PipeWeave's tables.
    """
    quoted = '"' + schema.replace('"', '""') + '"'
    return _ENQUEUE.replace("TABLE_NAME", f"{quoted}.{TABLE}")
