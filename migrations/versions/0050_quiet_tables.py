"""Has autovacuum leave alone what the ticks and heartbeats of an idle deployment change.

By default a table is vacuumed and analysed after 50 changes and a part of its rows. These tables have a few
rows, and one of them changes each second: each was vacuumed and analysed once a minute for ever. Dead
versions of a row are pruned where the next one is written; an index of workers has a thousand dead entries at
most.
"""

from alembic import op

revision = "0050"
down_revision = "0049"

TABLES = ("leases", "orchestrator_state", "workers", "tick_chores")
CHANGES = 1_000


def upgrade() -> None:
    for table in TABLES:
        op.execute(
            f"ALTER TABLE {table} SET (autovacuum_vacuum_threshold = {CHANGES},"
            f" autovacuum_analyze_threshold = {CHANGES})"
        )


def downgrade() -> None:
    for table in TABLES:
        op.execute(f"ALTER TABLE {table} RESET (autovacuum_vacuum_threshold, autovacuum_analyze_threshold)")
