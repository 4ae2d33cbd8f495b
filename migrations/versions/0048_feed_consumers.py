"""Adds one table for how far each consumer has read the event log, and copies the three places there were.

Processes of the version before go on with `event_reader`, `stats_place` and `trace_place`. Triggers on the
tables keep both sides together until the next release drops the old side:

- A consumer that moves takes its old row along, in the same statement.
- The old rows of statistics and traces take the consumer along when they move. So whoever counts or sends
  goes on where the other side has come to.
- For triggers and hooks both sides may read the same events: what an event fires has a unique key, and is
  noted once.

Two processes that consume at the same moment wait for each other's row at their end: PostgreSQL undoes one of
them, which begins again behind what the other has read.
"""

import base64
from collections.abc import Iterator

import sqlalchemy as sa
from alembic import op

revision = "0048"
down_revision = "0047"

UP = """
-- How far events are read: those of all transactions below `before`, without the open ones.
CREATE TABLE feed_consumers (
    name           text PRIMARY KEY,
    before         xid8 NOT NULL,
    open           xid8[] NOT NULL DEFAULT '{}',
    server         text NOT NULL,               -- whose numbers of transactions they are
    read_at        timestamptz NOT NULL,
    missed_at      timestamptz,                 -- it was noticed then that history was dropped unread
    missed_months  text[] NOT NULL DEFAULT '{}' -- which, that time
);
INSERT INTO feed_consumers (name, before, open, server, read_at, missed_at)
SELECT 'statistics', before, open, server, folded_at, missed_at FROM stats_place;
INSERT INTO feed_consumers (name, before, open, server, read_at)
SELECT 'traces', before, open, server, sent_at FROM trace_place;
"""

# Without a row, nothing fired for events: it begins here.
TRIGGERS = """
SELECT e.place, CAST(coalesce(e.since, pg_snapshot_xmin(pg_current_snapshot())) AS text) AS before,
    coalesce(e.read_at, now()) AS read_at, s.server
FROM stats_place AS s LEFT JOIN event_reader AS e ON true
"""
INSERT = """
INSERT INTO feed_consumers (name, before, open, server, read_at) VALUES ('triggers',
    CAST(CAST(:before AS text) AS xid8), CAST(CAST(:open AS text[]) AS xid8[]), :server, :read_at)
"""

TOGETHER = """
CREATE FUNCTION feed_consumer_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.name = 'statistics' THEN
        UPDATE stats_place SET before = NEW.before, open = NEW.open, server = NEW.server,
            folded_at = NEW.read_at, missed_at = NEW.missed_at
        WHERE (before, open, server, folded_at, missed_at)
            IS DISTINCT FROM (NEW.before, NEW.open, NEW.server, NEW.read_at, NEW.missed_at);
    ELSIF NEW.name = 'traces' THEN
        INSERT INTO trace_place AS p (before, open, server, sent_at)
        VALUES (NEW.before, NEW.open, NEW.server, NEW.read_at)
        ON CONFLICT (singleton) DO UPDATE SET before = NEW.before, open = NEW.open, server = NEW.server,
            sent_at = NEW.read_at
        WHERE (p.before, p.open, p.server, p.sent_at)
            IS DISTINCT FROM (NEW.before, NEW.open, NEW.server, NEW.read_at);
    ELSIF NEW.name = 'triggers' THEN
        INSERT INTO event_reader (since, read_at)
        VALUES (least(NEW.before, (SELECT min(o) FROM unnest(NEW.open) AS o)), NEW.read_at)
        ON CONFLICT (singleton) DO UPDATE SET since = EXCLUDED.since, place = NULL, read_at = NEW.read_at;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER moves_old_place AFTER INSERT OR UPDATE ON feed_consumers
FOR EACH ROW EXECUTE FUNCTION feed_consumer_moved();

-- Its arguments: the consumer, and the column that says when it was at its place.
CREATE FUNCTION old_place_moved() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    old jsonb := to_jsonb(NEW);
BEGIN
    INSERT INTO feed_consumers AS c (name, before, open, server, read_at, missed_at)
    VALUES (TG_ARGV[0], NEW.before, NEW.open, NEW.server, CAST(old ->> TG_ARGV[1] AS timestamptz),
        CAST(old ->> 'missed_at' AS timestamptz))
    ON CONFLICT (name) DO UPDATE SET before = EXCLUDED.before, open = EXCLUDED.open,
        server = EXCLUDED.server, read_at = EXCLUDED.read_at, missed_at = EXCLUDED.missed_at
    WHERE (c.before, c.open, c.server, c.read_at)
        IS DISTINCT FROM (EXCLUDED.before, EXCLUDED.open, EXCLUDED.server, EXCLUDED.read_at);
    RETURN NULL;
END $$;
CREATE TRIGGER moves_consumer AFTER UPDATE ON stats_place
FOR EACH ROW EXECUTE FUNCTION old_place_moved('statistics', 'folded_at');
CREATE TRIGGER moves_consumer AFTER INSERT OR UPDATE ON trace_place
FOR EACH ROW EXECUTE FUNCTION old_place_moved('traces', 'sent_at');
"""

DOWN = """
DROP TABLE feed_consumers;
DROP FUNCTION feed_consumer_moved();
DROP FUNCTION old_place_moved() CASCADE;
"""


def upgrade() -> None:
    op.execute(UP)
    row = op.get_bind().execute(sa.text(TRIGGERS)).one()
    before, opened = _seen(row.place) if row.place else (row.before, [])
    values = {"before": before, "open": opened, "server": row.server, "read_at": row.read_at}
    op.execute(sa.text(INSERT).bindparams(**values))
    op.execute(TOGETHER)


def downgrade() -> None:
    op.execute(DOWN)


def _seen(place: str) -> tuple[str, list[str]]:
    """`before` and `open` of a text of orchestrator/feed/place_text.py; what was begun is read again."""
    content = base64.urlsafe_b64decode(place + "=" * (-len(place) % 4))
    _, before, count, *rest = _varints(content[5:-4])
    return str(before), [str(before - each) for each in rest[:count]]


def _varints(content: bytes) -> Iterator[int]:
    number = shift = 0
    for each in content:
        number |= (each & 0x7F) << shift
        shift += 7
        if each < 0x80:
            yield number
            number = shift = 0
