"""Lists the objects that rows of a tenant name, for its export: where they lie, their hash and size."""

from __future__ import annotations

OBJECTS = "objects"

# Table, column of the reference, SQL of the SHA-256 and of the size (bytes), where the row has them.
SOURCES = (
    ("bundles", "storage_path", "NULL", "t.size"),
    ("temp_uploads", "storage_path", "t.sha256", "t.size_bytes"),
    ("runs", "input_path", "NULL", "t.input_size"),
    ("task_runs", "output_path", "NULL", "t.output_size"),
    ("task_runs", "logs_path", "NULL", "NULL"),
    ("attempts", "logs_path", "NULL", "NULL"),
    ("signals", "payload_path", "NULL", "t.size"),
    ("dead_letters", "input_path", "NULL", "NULL"),
    ("idempotency_claims", "output_path", "NULL", "t.output_size"),
)
# Rows of runs have no index by their tenant.
_OF_RUNS = frozenset({"attempts", "task_runs", "signals"})


# An artifact is named by its content: that names its bytes, whatever the row says of the value in them.
def _source(table: str, column: str, sha256: str, size: str) -> str:
    of = (
        f"runs AS r JOIN {table} AS t ON t.run_id = r.id WHERE r.tenant_id = :tenant"
        if table in _OF_RUNS
        else f"{table} AS t WHERE t.tenant_id = :tenant"
    )
    return f"""
SELECT '{table}' AS "of", t.{column} AS path,
    coalesce(substring(t.{column} FROM 'artifacts/sha256/../([0-9a-f]{{64}})'), {sha256}) AS sha256,
    CAST({size} AS bigint) AS size
FROM {of} AND t.{column} IS NOT NULL"""


_ASSETS = """
SELECT 'task_runs.assets' AS "of", f.value ->> 'path' AS path,
    substring(f.value ->> 'path' FROM 'artifacts/sha256/../([0-9a-f]{64})') AS sha256,
    CAST(f.value ->> 'size' AS bigint) AS size
FROM runs AS r JOIN task_runs AS t ON t.run_id = r.id CROSS JOIN LATERAL jsonb_each(t.assets) AS f
WHERE r.tenant_id = :tenant AND t.assets IS NOT NULL"""

OBJECTS_OF = "\nUNION ALL".join((*(_source(*each) for each in SOURCES), _ASSETS))
"""SQL: a row for each reference of the tenant: of, path, sha256, size. An object may be named by several."""
