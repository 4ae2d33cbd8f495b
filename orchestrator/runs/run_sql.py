"""The statements that write new runs, with their task runs and first events.

The guards are in the statement itself: nothing can change between a check and the write. A new run has no
row yet that a second statement could wait for.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeweave.orchestrator.queueing import start_conditions
from pipeweave.orchestrator.registry import snapshot

# A value that has the domain of its column already is not checked again for each row that takes it over.
_RUN_TYPES = """id uuid, pipeline_id text, version integer,
        status run_status, started_at timestamptz, failure_mode failure_mode, priority integer, input jsonb,
        path text, size integer, hash text, run_token text, metadata jsonb, steps ordinal_count,
        timeout_ms bigint, idle_timeout_ms bigint, triggered_kind text,
        triggered_id text, triggered_actor text, traceparent text, rerun_of uuid, rerun_from text,
        edits jsonb, queue_name text, requires jsonb, concurrency_key text,
        concurrency_limit integer, concurrency_replaces boolean, key_rate integer,
        key_seconds double precision"""
_TASK_RUN_TYPES = """step_id text, task_id text, kind task_run_kind, status task_run_status,
        max_attempts attempt_number, priority integer, queue text, is_limited boolean, code_version integer,
        code_hash text, idempotency_key text, timeout_ms bigint, queue_name text, requires jsonb"""


@dataclass(frozen=True, slots=True)
class _RowSource:
    """Where a statement has its rows from.

    Args:
        before: common table expressions in front of the writes.
        runs: SQL: the rows `r`, and what each run has for itself as a row with the name `own`.
        task_runs: the same with rows `s` of the task runs.
        events: the same with rows `e` of the events.
        own: the name of the row with id, input, size and hash of a run.
        task_run_ids: SQL: the ids of the run and of its task run.
        run_of_event: SQL: the id of an event's run.
        data: SQL: the data of an event.
    """

    before: str
    runs: str
    task_runs: str
    events: str
    own: str
    task_run_ids: str
    run_of_event: str
    data: str


def write_sql(accepting: str, columns: str = "", values: str = "", types: str = "") -> str:
    """The statement that writes runs, each with rows of its own: `:runs`, `:task_runs` and `:events`.

    Args:
        accepting: SQL: a row while such runs are accepted.
        columns: further columns of runs.
        values: theirs, of the row `r`.
        types: theirs, with their names.
    """
    source = _RowSource(
        before="",
        runs=f"accepting, jsonb_to_recordset(CAST(:runs AS jsonb)) AS r({_RUN_TYPES}{types})",
        task_runs="accepting, jsonb_to_recordset(CAST(:task_runs AS jsonb))"
        f" AS s(run_id uuid, id uuid, {_TASK_RUN_TYPES})",
        events="accepting, jsonb_to_recordset(CAST(:events AS jsonb))"
        " AS e(run_id uuid, type text, data jsonb)",
        own="r",
        task_run_ids="s.run_id, s.id",
        run_of_event="e.run_id",
        data="e.data",
    )
    return _sql(accepting, source, columns, values)


def write_alike_sql(accepting: str) -> str:
    """The statement that writes runs which differ in ids and inputs alone.

    These are the lists `:ids`, `:hashes`, `:sizes` and `:inputs`. The row `:runs` is that of each of them,
    and so are the rows `:task_runs` and `:events`: of an id there its end is taken, which is the ordinal.
    """
    # PostgreSQL reads each list, but not the same columns, names and values for each run again.
    source = _RowSource(
        before=""", own AS MATERIALIZED (
    SELECT o.id, o.hash, o.size, NULLIF(o.input, 'null') AS input, left(CAST(o.id AS text), 30) AS head
    FROM accepting, ROWS FROM (unnest(CAST(:ids AS uuid[])), unnest(CAST(:hashes AS text[])),
        unnest(CAST(:sizes AS integer[])), jsonb_array_elements(CAST(:inputs AS jsonb)))
        AS o(id, hash, size, input)
)""",
        runs=f"own, jsonb_to_record(CAST(:runs AS jsonb)) AS r({_RUN_TYPES})",
        task_runs=f"own, jsonb_to_recordset(CAST(:task_runs AS jsonb)) AS s(id text, {_TASK_RUN_TYPES})",
        events="own, jsonb_to_recordset(CAST(:events AS jsonb)) AS e(type text, data jsonb)",
        own="own",
        task_run_ids="own.id, CAST(own.head || right(s.id, 6) AS uuid)",
        run_of_event="own.id",
        data="""CASE e.type WHEN 'run.created' THEN e.data || jsonb_build_object('inputsHash', own.hash)
    ELSE e.data END""",
    )
    return _sql(accepting, source)


def _sql(accepting: str, source: _RowSource, columns: str = "", values: str = "") -> str:
    own = source.own
    return f"""
WITH accepting AS MATERIALIZED (
    SELECT 1 FROM ({accepting}) AS a
    WHERE {start_conditions.AS_EXPECTED} AND {snapshot.IS_CURRENT}
){source.before}, new_runs AS (
    INSERT INTO runs (id, tenant_id, pipeline_id, pipeline_version, status, failure_mode, priority, input,
        input_path, input_size, inputs_hash, run_token, metadata, task_run_count, created_at, started_at,
        deadline_at, idle_timeout_ms, triggered_kind, triggered_id, triggered_actor,
        traceparent, rerun_of, rerun_from, edits, queue_name, requires, concurrency_key,
        concurrency_limit, concurrency_replaces, key_rate, key_seconds{columns})
    SELECT {own}.id, :tenant, r.pipeline_id, r.version, r.status, r.failure_mode, r.priority, {own}.input,
        r.path, {own}.size, {own}.hash, r.run_token, r.metadata, r.steps, :now, r.started_at,
        r.started_at + r.timeout_ms * interval '1 millisecond', r.idle_timeout_ms, r.triggered_kind,
        r.triggered_id, r.triggered_actor, r.traceparent, r.rerun_of, r.rerun_from, r.edits,
        r.queue_name, r.requires, r.concurrency_key, r.concurrency_limit, r.concurrency_replaces, r.key_rate,
        r.key_seconds{values}
    FROM {source.runs}
), new_task_runs AS (
    INSERT INTO task_runs (run_id, id, tenant_id, step_id, task_id, kind, status, max_attempts, priority,
        queue, is_limited, code_version, code_hash, idempotency_key, timeout_ms, queue_name, requires,
        created_at, queued_at)
    SELECT {source.task_run_ids}, :tenant, s.step_id, s.task_id, s.kind, s.status, s.max_attempts, s.priority,
        s.queue, s.is_limited, s.code_version, s.code_hash, s.idempotency_key, s.timeout_ms,
        s.queue_name, s.requires, :now, CASE WHEN s.status <> 'pending' THEN :now END
    FROM {source.task_runs}
)
INSERT INTO events (run_id, at, type, task_run_id, attempt, data)
SELECT {source.run_of_event}, :now, e.type, NULL, NULL, {source.data}
FROM {source.events}
"""
