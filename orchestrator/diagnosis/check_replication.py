"""Doctor's check of PostgreSQL's replication: what a failover would lose."""

from __future__ import annotations

from pipeweave.orchestrator.diagnosis.check_database import read_transaction
from pipeweave.orchestrator.diagnosis.doctor import Check, Verdict, fine, warning
from pipeweave.orchestrator.store.timeline import TIMELINE
from pipeweave.settings import Settings

# `sync_state` needs a right (pg_monitor); the number of standbys does not. The timeline counts promotions.
_REPLICATION = f"""
SELECT (SELECT count(*) FROM pg_stat_replication) AS standbys,
       current_setting('synchronous_standby_names') <> '' AS is_named,
       current_setting('synchronous_commit') IN ('on', 'remote_write', 'remote_apply') AS waits,
       {TIMELINE} AS timeline
"""


def replication(settings: Settings) -> Verdict:
    """Standbys have what was accepted before they take over."""
    with read_transaction(settings) as tx:
        row = tx.execute(_REPLICATION).one()
    timeline = int(row.timeline, 16)
    promoted = "" if timeline == 1 else f", timeline {timeline}"
    if not row.standbys:
        if row.is_named and row.waits:
            return warning(
                f"synchronous_standby_names is set, but no standby is connected{promoted}",
                "connect one: until then every commit waits",
            )
        return fine(f"no standby{promoted}")
    shown = "1 standby" if row.standbys == 1 else f"{row.standbys} standbys"
    if row.is_named and row.waits:
        return fine(f"{shown}, and a commit waits for it{promoted}")
    what = "synchronous_commit is off" if row.is_named else "synchronous_standby_names is empty"
    return warning(
        f"{shown}, and {what}: a failover can lose accepted runs{promoted}",
        "set synchronous_standby_names of PostgreSQL"
        if not row.is_named
        else "set synchronous_commit to on for the role and the database of PipeWeave",
    )


CHECK = Check("replication", replication, needs=("database",))
