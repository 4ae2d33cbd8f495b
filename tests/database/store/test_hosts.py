"""A database of several hosts: sessions go to the primary, wherever it is."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg2
import pytest
from support.replicas import Pair, replicated
from support.servers import wait_until

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.diagnosis import check_database, check_replication
from pipeweave.orchestrator.diagnosis.doctor import Severity
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.hosts import Hosts
from pipeweave.settings import load
from pipeweave.up.ports import LOOPBACK, free_port
from pipeweave.up.postgres import Postgres


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A primary and a standby; the last test of the module may end the primary."""
    with replicated(tmp_path_factory.mktemp("pair")) as pair:
        yield pair


def behind_nobody(server: Postgres) -> str:
    """A URL whose first host is away."""
    account, _, place = server.url.rpartition("@")
    return f"{account}@{LOOPBACK}:{free_port()},{place}"


def test_the_host_that_answered_is_asked_first_the_next_time(postgres_server: Postgres) -> None:
    url = behind_nobody(postgres_server)
    hosts = Hosts(url)
    first_asked = hosts.arguments()["port"].partition(",")[0]
    assert first_asked != str(postgres_server.port)
    database = Database(url, pool_size=0)
    with database.transaction() as tx:
        assert tx.execute("SELECT 1").scalar_one() == 1
    assert hosts.arguments()["port"] == f"{postgres_server.port},{first_asked}"
    database.dispose()


def test_the_settings_with_several_hosts_work_and_doctor_says_which_one_answers(
    postgres_server: Postgres,
) -> None:
    settings = load({"DATABASE_URL": behind_nobody(postgres_server)})
    assert check_database.reachable(settings).line.endswith(
        f" at {LOOPBACK}:{postgres_server.port}/pipeweave"
    )


def test_doctor_says_whether_a_failover_would_lose_what_was_accepted(
    postgres_server: Postgres, pair: Pair
) -> None:
    def verdict(url: str) -> tuple[Severity, str]:
        found = check_replication.replication(load({"DATABASE_URL": url}))
        return found.level, found.line

    assert verdict(postgres_server.url) == (Severity.OK, "no standby")
    level, line = verdict(pair.url())
    assert (level, line) == (
        Severity.WARNING,
        "1 standby, and synchronous_standby_names is empty: a failover can lose accepted runs",
    )
    pair.be_synchronous()
    assert verdict(pair.url()) == (Severity.OK, "1 standby, and a commit waits for it")


def test_every_kind_of_session_goes_to_the_primary_though_the_standby_is_named_first(pair: Pair) -> None:
    account, _, _ = pair.primary.url.rpartition("@")
    hosts = f"{LOOPBACK}:{pair.standby.port},{LOOPBACK}:{pair.primary.port}"
    for wanted in ("primary", "read-write"):
        database = Database(f"{account}@{hosts}/pipeweave?target_session_attrs={wanted}", pool_size=2)
        for begin in (database.transaction, database.statements, database.reading, database.following):
            with begin() as tx:
                assert tx.server == f"{LOOPBACK}:{pair.primary.port}"
        database.dispose()


def test_a_silent_session_is_looked_for_at_its_own_server(pair: Pair) -> None:
    database = Database(pair.url(), pool_size=1)
    with database.connections.lend() as session, psycopg2.connect(session.server) as other:
        assert other.info.port == pair.primary.port
        assert "," not in other.info.dsn_parameters["host"]
    database.dispose()


def test_sessions_follow_a_standby_that_was_promoted(pair: Pair) -> None:
    database = Database(pair.url(), pool_size=2)
    with database.transaction() as tx:
        tx.execute("CREATE TABLE IF NOT EXISTS kept (number integer)")
    pair.kill_primary()

    def is_away() -> bool:
        try:
            with database.transaction() as tx:
                tx.execute("SELECT 1")
        except Unavailable:
            return True
        return False

    wait_until(is_away)
    pair.promote()
    after = check_replication.replication(load({"DATABASE_URL": pair.url()}))
    assert after.line == "no standby, timeline 2"

    def goes_on() -> bool:
        try:
            with database.transaction() as tx:
                return tx.server == f"{LOOPBACK}:{pair.standby.port}"
        except Unavailable:
            return False

    wait_until(goes_on)
    with database.transaction() as tx:
        tx.execute("INSERT INTO kept VALUES (1)")
    with database.reading() as tx:
        assert tx.execute("SELECT number FROM kept").scalar_one() == 1
    database.dispose()
