"""Puts the checks of a run's row, and of a task run's, into one function each.

PostgreSQL reads the text of each CHECK again for every statement that changes a row of the table, and
evaluates all of them, whichever columns change. The eleven of runs took longer than the change itself. The
call of a function is a short text; what it says is read once per session.

The rules are those from before, so rows that are there obey them: nothing is scanned. Processes of the
version before can use this schema.
"""

from alembic import op

revision = "0090"
down_revision = "0089"

_IS_QUEUE_NAME = "queue_name ~ '^[A-Za-z0-9._-]{1,100}$'"
_LABEL = '"[A-Za-z0-9._-]{1,32}": "[A-Za-z0-9._-]{1,63}"'
_ARE_LABELS = f"CAST(requires AS text) ~ '^\\{{{_LABEL}(, {_LABEL})*\\}}$'"

# What every run has, and what few have: the second is looked at where a column of it has a value.
_RUN = """
    (pipeline_id IS NULL) = (pipeline_version IS NULL) AND (input IS NULL OR input_path IS NULL)
    AND CASE WHEN status IN ('completed', 'partial') THEN finished_at IS NOT NULL AND started_at IS NOT NULL
             WHEN status = 'failed' THEN finished_at IS NOT NULL AND error_code IS NOT NULL
             WHEN status = 'cancelled' THEN finished_at IS NOT NULL
             WHEN status = 'pending' THEN finished_at IS NULL
             ELSE finished_at IS NULL AND started_at IS NOT NULL END
    AND paused_ms >= 0"""
_RARE = """idle_timeout_ms, depth, body, scope, queue_name, requires,
    concurrency_key, concurrency_limit, concurrency_replaces, key_rate, key_seconds"""
_RARE_RUN = f"""
    idle_timeout_ms > 0 AND depth BETWEEN 1 AND 10 AND (body IS NULL) = (scope IS NULL)
    AND {_IS_QUEUE_NAME}
    AND {_ARE_LABELS}
    AND length(concurrency_key) <= 200 AND concurrency_limit BETWEEN 1 AND 10000
    AND (concurrency_key IS NULL) = (concurrency_replaces IS NULL)
    AND (concurrency_key IS NULL) = (concurrency_limit IS NULL AND key_rate IS NULL)
    AND (concurrency_key IS NULL OR pipeline_id IS NOT NULL)
    AND (key_rate IS NULL) = (key_seconds IS NULL) AND key_rate BETWEEN 1 AND 10000 AND key_seconds > 0"""
_TASK_RUN = """
    CASE status WHEN 'running' THEN finished_at IS NULL AND started_at IS NOT NULL AND worker IS NOT NULL
                WHEN 'completed' THEN finished_at IS NOT NULL
                WHEN 'queued' THEN finished_at IS NULL AND queued_at IS NOT NULL
                WHEN 'failed' THEN finished_at IS NOT NULL AND error_code IS NOT NULL
                WHEN 'timeout' THEN finished_at IS NOT NULL AND error_code IS NOT NULL
                ELSE (status IN ('cancelled', 'skipped')) = (finished_at IS NOT NULL) END
    AND (kind = 'item') = (map_index IS NOT NULL) AND (map_index IS NULL) = (map_parent IS NULL)
    AND (output IS NULL OR output_path IS NULL)"""

# As in a CHECK, what is NULL is no violation.
UP = f"""
CREATE FUNCTION run_is_sane(status text, pipeline_id text, pipeline_version integer, input jsonb,
    input_path text, error_code text, started_at timestamptz, finished_at timestamptz, paused_ms bigint,
    idle_timeout_ms bigint, depth smallint, body text, scope jsonb, queue_name text, requires jsonb,
    concurrency_key text, concurrency_limit integer, concurrency_replaces boolean, key_rate integer,
    key_seconds double precision) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF NOT ({_RUN}) THEN
        RETURN false;
    END IF;
    IF num_nonnulls({_RARE}) = 0 THEN
        RETURN true;
    END IF;
    RETURN {_RARE_RUN};
END $$;
CREATE FUNCTION task_run_is_sane(status text, kind text, map_index integer, map_parent integer,
    output jsonb, output_path text, error_code text, worker text, queued_at timestamptz,
    started_at timestamptz, finished_at timestamptz, queue_name text, requires jsonb)
    RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF NOT ({_TASK_RUN}) THEN
        RETURN false;
    END IF;
    IF num_nonnulls(queue_name, requires) = 0 THEN
        RETURN true;
    END IF;
    RETURN {_IS_QUEUE_NAME}
        AND {_ARE_LABELS};
END $$;
ALTER TABLE runs
    DROP CONSTRAINT runs_are_sane,
    DROP CONSTRAINT runs_body_check,
    DROP CONSTRAINT runs_concurrency_key_check,
    DROP CONSTRAINT runs_concurrency_limit_check,
    DROP CONSTRAINT runs_depth_check,
    DROP CONSTRAINT runs_have_a_key_with_its_limit,
    DROP CONSTRAINT runs_idle_timeout_ms_check,
    DROP CONSTRAINT runs_key_rate_check,
    DROP CONSTRAINT runs_paused_ms_check,
    DROP CONSTRAINT runs_queue_name_check,
    DROP CONSTRAINT runs_requires_check,
    ADD CONSTRAINT runs_are_sane CHECK (run_is_sane(status, pipeline_id, pipeline_version, input, input_path,
        error_code, started_at, finished_at, paused_ms, {_RARE})) NOT VALID;
ALTER TABLE task_runs
    DROP CONSTRAINT task_runs_are_sane,
    DROP CONSTRAINT task_runs_queue_name_check,
    DROP CONSTRAINT task_runs_requires_check,
    ADD CONSTRAINT task_runs_are_sane CHECK (task_run_is_sane(status, kind, map_index, map_parent, output,
        output_path, error_code, worker, queued_at, started_at, finished_at, queue_name, requires)) NOT VALID;
"""

DOWN = f"""
ALTER TABLE task_runs
    DROP CONSTRAINT task_runs_are_sane,
    ADD CONSTRAINT task_runs_are_sane CHECK (
        CASE WHEN status = 'running'
                 THEN finished_at IS NULL AND started_at IS NOT NULL AND worker IS NOT NULL
             WHEN status = 'completed' THEN finished_at IS NOT NULL
             WHEN status = 'queued' THEN finished_at IS NULL AND queued_at IS NOT NULL
             WHEN status IN ('failed', 'timeout') THEN finished_at IS NOT NULL AND error_code IS NOT NULL
             ELSE (status IN ('cancelled', 'skipped')) = (finished_at IS NOT NULL) END
        AND (kind = 'item') = (map_index IS NOT NULL) AND (map_index IS NULL) = (map_parent IS NULL)
        AND (output IS NULL OR output_path IS NULL)) NOT VALID,
    ADD CONSTRAINT task_runs_queue_name_check CHECK ({_IS_QUEUE_NAME}) NOT VALID,
    ADD CONSTRAINT task_runs_requires_check CHECK ({_ARE_LABELS}) NOT VALID;
ALTER TABLE runs
    DROP CONSTRAINT runs_are_sane,
    ADD CONSTRAINT runs_are_sane CHECK (
        (pipeline_id IS NULL) = (pipeline_version IS NULL) AND (input IS NULL OR input_path IS NULL)
        AND CASE WHEN status IN ('completed', 'partial')
                     THEN finished_at IS NOT NULL AND started_at IS NOT NULL
                 WHEN status = 'failed' THEN finished_at IS NOT NULL AND error_code IS NOT NULL
                 WHEN status = 'cancelled' THEN finished_at IS NOT NULL
                 WHEN status = 'pending' THEN finished_at IS NULL
                 ELSE finished_at IS NULL AND started_at IS NOT NULL END) NOT VALID,
    ADD CONSTRAINT runs_body_check CHECK ((body IS NULL) = (scope IS NULL)) NOT VALID,
    ADD CONSTRAINT runs_concurrency_key_check CHECK (length(concurrency_key) <= 200) NOT VALID,
    ADD CONSTRAINT runs_concurrency_limit_check CHECK (concurrency_limit BETWEEN 1 AND 10000) NOT VALID,
    ADD CONSTRAINT runs_depth_check CHECK (depth BETWEEN 1 AND 10) NOT VALID,
    ADD CONSTRAINT runs_have_a_key_with_its_limit CHECK (
        (concurrency_key IS NULL) = (concurrency_replaces IS NULL)
        AND (concurrency_key IS NULL) = (concurrency_limit IS NULL AND key_rate IS NULL)
        AND (concurrency_key IS NULL OR pipeline_id IS NOT NULL)) NOT VALID,
    ADD CONSTRAINT runs_idle_timeout_ms_check CHECK (idle_timeout_ms > 0) NOT VALID,
    ADD CONSTRAINT runs_key_rate_check CHECK (
        (key_rate IS NULL) = (key_seconds IS NULL) AND (key_rate IS NULL OR concurrency_key IS NOT NULL)
        AND key_rate BETWEEN 1 AND 10000 AND key_seconds > 0) NOT VALID,
    ADD CONSTRAINT runs_paused_ms_check CHECK (paused_ms >= 0) NOT VALID,
    ADD CONSTRAINT runs_queue_name_check CHECK ({_IS_QUEUE_NAME}) NOT VALID,
    ADD CONSTRAINT runs_requires_check CHECK ({_ARE_LABELS}) NOT VALID;
DROP FUNCTION run_is_sane, task_run_is_sane;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
