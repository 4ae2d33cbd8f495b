"""Lets a key of runs have a rate: so many of its runs start in a time.

Processes of the version before can use this schema: they leave the columns NULL, which is no rate, and start
a pending run whatever its rate is.
"""

from alembic import op

revision = "0088"
down_revision = "0085"

UP = """
ALTER TABLE runs
    ADD COLUMN key_rate    integer,     -- runs of the key that start in `key_seconds`; NULL: any number
    ADD COLUMN key_seconds double precision,
    ADD CONSTRAINT runs_key_rate_check CHECK (
        (key_rate IS NULL) = (key_seconds IS NULL) AND (key_rate IS NULL OR concurrency_key IS NOT NULL)
        AND key_rate BETWEEN 1 AND 10000 AND key_seconds > 0) NOT VALID,
    DROP CONSTRAINT runs_have_a_key_with_its_limit,
    ADD CONSTRAINT runs_have_a_key_with_its_limit CHECK (
        (concurrency_key IS NULL) = (concurrency_replaces IS NULL)
        AND (concurrency_key IS NULL) = (concurrency_limit IS NULL AND key_rate IS NULL)
        AND (concurrency_key IS NULL OR pipeline_id IS NOT NULL)) NOT VALID;
CREATE INDEX runs_started_of_key ON runs (tenant_id, pipeline_id, concurrency_key, started_at)
    WHERE key_rate IS NOT NULL;
"""

DOWN = """
DROP INDEX runs_started_of_key;
UPDATE runs SET concurrency_key = NULL, concurrency_replaces = NULL
WHERE concurrency_key IS NOT NULL AND concurrency_limit IS NULL;
ALTER TABLE runs DROP CONSTRAINT runs_have_a_key_with_its_limit,
    DROP COLUMN key_rate, DROP COLUMN key_seconds;
ALTER TABLE runs ADD CONSTRAINT runs_have_a_key_with_its_limit CHECK (
    (concurrency_key IS NULL) = (concurrency_limit IS NULL)
    AND (concurrency_key IS NULL) = (concurrency_replaces IS NULL)
    AND (concurrency_key IS NULL OR pipeline_id IS NOT NULL)) NOT VALID;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
