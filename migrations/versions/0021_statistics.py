"""Adds statistics: what the events of runs and task runs say, added up by minute, hour and day.

The tables are new, so processes of the previous version can use this schema. Events from now on are counted;
`pipeweave db stats --rebuild` counts those of before.
"""

from alembic import op

revision = "0021"
down_revision = "0020"

# Durations are in ms. A histogram is {bucket: number}, see orchestrator/telemetry/statistics/histogram.py.
DURATIONS = """
    took       jsonb NOT NULL,
    took_sum   double precision NOT NULL,
    took_min   double precision,
    took_max   double precision,
    wait       jsonb NOT NULL,
    wait_sum   double precision NOT NULL,
    wait_min   double precision,
    wait_max   double precision,
"""
# Rows change often; room on their page keeps them out of the indexes when they do.
KEYS = """
    tenant_id  text NOT NULL,
    scope      text NOT NULL CHECK (scope IN ({scopes})),
    id         text NOT NULL CHECK ((scope = 'tenant') = (id = '')),
    grain      text NOT NULL CHECK (grain IN ('minute', 'hour', 'day', 'ever')),
    at         timestamptz NOT NULL,     -- when the minute, hour or day (UTC) began
"""
END = "PRIMARY KEY (tenant_id, scope, id, grain, at)) WITH (fillfactor = 80)"

UP = f"""
CREATE TABLE run_stats ({KEYS.format(scopes="'tenant', 'pipeline'")}
    created    bigint NOT NULL,
    started    bigint NOT NULL,
    completed  bigint NOT NULL,
    partial    bigint NOT NULL,
    failed     bigint NOT NULL,
    cancelled  bigint NOT NULL,
    {DURATIONS} {END};
CREATE INDEX run_stats_expired ON run_stats (grain, at) WHERE grain IN ('minute', 'hour');
CREATE INDEX run_stats_ever ON run_stats (tenant_id, scope, id) WHERE grain = 'ever';

CREATE TABLE task_stats ({KEYS.format(scopes="'tenant', 'service', 'task'")}
    -- Attempts by how they ended; `cached`: completed by an idempotency key or a rerun, without an attempt.
    completed       bigint NOT NULL,
    cached          bigint NOT NULL,
    failed          bigint NOT NULL,
    timed_out       bigint NOT NULL,
    lost            bigint NOT NULL,
    interrupted     bigint NOT NULL,
    cancelled       bigint NOT NULL,
    retried         bigint NOT NULL,     -- attempts that another one followed
    again           bigint NOT NULL,     -- completed after the first attempt
    dead            bigint NOT NULL,     -- task runs that failed for good
    dead_timed_out  bigint NOT NULL,     -- of these, by exceeding a time limit
    redriven        bigint NOT NULL,     -- dead letters that were retried
    codes           jsonb NOT NULL,      -- "outcome/error code" -> attempts
    {DURATIONS} {END};
CREATE INDEX task_stats_expired ON task_stats (grain, at) WHERE grain IN ('minute', 'hour');
CREATE INDEX task_stats_ever ON task_stats (tenant_id, scope, id) WHERE grain = 'ever';

-- How far events are counted: those of all transactions below `before`, without the open ones.
CREATE TABLE stats_place (
    singleton      boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    before         xid8 NOT NULL,
    open           xid8[] NOT NULL DEFAULT '{{}}',
    server         text NOT NULL,        -- whose numbers of transactions they are
    folded_at      timestamptz NOT NULL,
    since          timestamptz NOT NULL, -- what happened earlier is counted only where days say so
    missed_at      timestamptz,          -- history was dropped then, before it was counted
    -- Counting the past anew: what `before` and `open` were when that began, and the last run that is done.
    rebuilt_before xid8,
    rebuilt_open   xid8[],
    rebuilt_since  timestamptz,
    rebuilt_after  uuid,
    CHECK ((rebuilt_before IS NULL) = (rebuilt_open IS NULL)),
    CHECK ((rebuilt_before IS NULL) = (rebuilt_since IS NULL))
);
INSERT INTO stats_place (before, server, folded_at, since)
SELECT pg_snapshot_xmin(pg_current_snapshot()), CAST(c.system_identifier AS text), now(), now()
FROM pg_control_system() AS c;
"""

DOWN = "DROP TABLE stats_place; DROP TABLE task_stats; DROP TABLE run_stats;"


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
