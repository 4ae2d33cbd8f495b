"""Lets statistics add up how late waits ended, by their kind.

Processes of the version before can use this schema; they add nothing of that kind.
"""

from alembic import op

revision = "0059"
down_revision = "0058"

UP = """
ALTER TABLE task_stats DROP CONSTRAINT task_stats_scope_check,
    ADD CONSTRAINT task_stats_scope_check CHECK (scope IN ('tenant', 'service', 'task', 'wait'));
"""

DOWN = """
DELETE FROM task_stats WHERE scope = 'wait';
ALTER TABLE task_stats DROP CONSTRAINT task_stats_scope_check,
    ADD CONSTRAINT task_stats_scope_check CHECK (scope IN ('tenant', 'service', 'task'));
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
