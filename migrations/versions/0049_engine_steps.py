"""Lets task runs be of steps that the engine decides itself: choices, transforms, waits and bodies.

Processes of the version before never see one: they refuse the pipelines that have such steps.
"""

from alembic import op

revision = "0049"
down_revision = "0048"

# NOT VALID: all rows that there are have kinds that were allowed before, so no table is read.
UP = """
ALTER DOMAIN task_run_kind DROP CONSTRAINT task_run_kind_check;
ALTER DOMAIN task_run_kind ADD CONSTRAINT task_run_kind_check
    CHECK (VALUE IN ('task', 'map', 'item', 'choice', 'transform', 'wait', 'body')) NOT VALID;
"""

DOWN = """
ALTER DOMAIN task_run_kind DROP CONSTRAINT task_run_kind_check;
ALTER DOMAIN task_run_kind ADD CONSTRAINT task_run_kind_check
    CHECK (VALUE IN ('task', 'map', 'item')) NOT VALID;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
