"""Lets enqueued runs wait until no other request of their key comes, with the newest input.

Processes of the version before can use this schema: they start such a run when it is due. One that starts it
while another request replaces its input may start the older one.
"""

from alembic import op

revision = "0079"
down_revision = "0078"

UP = """
ALTER TABLE enqueued_runs
    ADD COLUMN debounce_key   text CHECK (length(debounce_key) BETWEEN 1 AND 200),
    ADD COLUMN debounce_until timestamptz,                                    -- the latest time of its start
    ADD COLUMN requests       integer NOT NULL DEFAULT 1 CHECK (requests >= 1),
    ADD CONSTRAINT debounced_rows_have_an_end CHECK (
        (debounce_key IS NULL) = (debounce_until IS NULL) AND (debounce_key IS NOT NULL OR requests = 1));
CREATE UNIQUE INDEX enqueued_runs_debounced ON enqueued_runs (tenant_id, pipeline_id, debounce_key)
    WHERE settled_at IS NULL AND debounce_key IS NOT NULL;
"""

DOWN = """
DROP INDEX enqueued_runs_debounced;
ALTER TABLE enqueued_runs DROP CONSTRAINT debounced_rows_have_an_end,
    DROP COLUMN debounce_key, DROP COLUMN debounce_until, DROP COLUMN requests;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
