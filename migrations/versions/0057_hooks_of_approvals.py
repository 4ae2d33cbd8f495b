"""Lets pipelines have hooks for approvals that begin to wait.

Processes of the version before can use this schema; they fire no such hook.
"""

from alembic import op

revision = "0057"
down_revision = "0056"

UP = """
ALTER TABLE hook_fires DROP CONSTRAINT hook_fires_hook_check,
    ADD CONSTRAINT hook_fires_hook_check CHECK (hook IN ('onSuccess', 'onPartial', 'onFailure', 'onWaiting'));
-- Whether there are any: without them, nobody reads which waits begin.
CREATE INDEX pipeline_versions_on_waiting ON pipeline_versions (tenant_id, pipeline_id, version)
    WHERE hooks ? 'onWaiting';
"""

DOWN = """
DROP INDEX pipeline_versions_on_waiting;
DELETE FROM hook_fires WHERE hook = 'onWaiting';
ALTER TABLE hook_fires DROP CONSTRAINT hook_fires_hook_check,
    ADD CONSTRAINT hook_fires_hook_check CHECK (hook IN ('onSuccess', 'onPartial', 'onFailure'));
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
