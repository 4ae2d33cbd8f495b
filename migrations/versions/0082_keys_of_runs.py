"""Gives runs a key and how many runs of this key may be under way at once.

Processes of the version before can use this schema: they leave the columns NULL, which is no limit, and start
a pending run whatever its key is.
"""

from alembic import op

revision = "0082"
down_revision = "0080"

UP = """
ALTER TABLE runs
    ADD COLUMN concurrency_key      text,       -- '': all runs of the pipeline; NULL: no limit
    ADD COLUMN concurrency_limit    integer,    -- runs of the key that are under way at once
    ADD COLUMN concurrency_replaces boolean,    -- true: older runs of the key are cancelled for it
    ADD CONSTRAINT runs_concurrency_key_check CHECK (length(concurrency_key) <= 200) NOT VALID,
    ADD CONSTRAINT runs_concurrency_limit_check CHECK (concurrency_limit BETWEEN 1 AND 10000) NOT VALID,
    ADD CONSTRAINT runs_have_a_key_with_its_limit CHECK (
        (concurrency_key IS NULL) = (concurrency_limit IS NULL)
        AND (concurrency_key IS NULL) = (concurrency_replaces IS NULL)
        AND (concurrency_key IS NULL OR pipeline_id IS NOT NULL)) NOT VALID;
CREATE INDEX runs_of_key ON runs (tenant_id, pipeline_id, concurrency_key, id)
    WHERE concurrency_key IS NOT NULL AND finished_at IS NULL;
CREATE INDEX runs_waiting_for_key ON runs (tenant_id, pipeline_id, concurrency_key, id)
    WHERE concurrency_key IS NOT NULL AND status = 'pending';
"""

DOWN = """
DROP INDEX runs_waiting_for_key, runs_of_key;
ALTER TABLE runs DROP COLUMN concurrency_key, DROP COLUMN concurrency_limit, DROP COLUMN concurrency_replaces;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
