"""Checks a hash by a pattern that costs little.

PostgreSQL makes the automaton of a pattern anew for each value. That of 64 counted digits has as many states
as digits, and took longer than all else that the row of a new run is checked for. Length and letters are
checked apart: that is one state.

The rule is the one from before, so values that are there obey it: nothing is scanned. Processes of the
version before can use this schema.
"""

from alembic import op

revision = "0091"
down_revision = "0090"

UP = """
ALTER DOMAIN sha256_hex DROP CONSTRAINT sha256_hex_check;
ALTER DOMAIN sha256_hex
    ADD CONSTRAINT sha256_hex_check CHECK (length(VALUE) = 64 AND VALUE !~ '[^0-9a-f]') NOT VALID;
"""

DOWN = """
ALTER DOMAIN sha256_hex DROP CONSTRAINT sha256_hex_check;
ALTER DOMAIN sha256_hex ADD CONSTRAINT sha256_hex_check CHECK (VALUE ~ '^[0-9a-f]{64}$') NOT VALID;
"""


def upgrade() -> None:
    op.execute(UP)


def downgrade() -> None:
    op.execute(DOWN)
