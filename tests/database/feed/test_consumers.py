"""Each consumer reads each event once, whatever happens to its processes, to history and to the database."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.consumed_events import FROM_HIGHER, FROM_LOWER, History
from support.replicas import replicated

from pipeweave.orchestrator.deployment import migrate
from pipeweave.orchestrator.store.database import Database

STEPS = 300


@pytest.mark.parametrize("seed", range(4))
def test_a_random_history_is_consumed_once_by_each_consumer(fresh_database: Database, seed: int) -> None:
    """Transactions of all lengths, months that are dropped, processes that die, a restore in the middle."""
    with History(fresh_database, seed) as made:
        made.go_on(STEPS)
        made.restore((FROM_HIGHER, FROM_LOWER)[seed % 2])
        made.go_on(STEPS)
        made.check()


def test_a_replica_that_takes_over_goes_on_where_consumers_were(tmp_path: Path) -> None:
    with replicated(tmp_path) as servers:
        migrate.upgrade(servers.primary.url)
        before, after = Database(servers.primary.url), Database(servers.standby.url)
        with History(before, seed=0) as made:
            made.go_on(STEPS)
            made.programs.commit_all()
            servers.catch_up()
            servers.kill_primary()
            servers.promote()
            made.move_to(after)
            made.go_on(STEPS)
            made.check()
        before.dispose()
        after.dispose()
