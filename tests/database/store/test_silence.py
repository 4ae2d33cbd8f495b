"""Connections to PostgreSQL go silent behind a proxy: nothing arrives any more, and nobody closes them."""

from __future__ import annotations

import logging
import multiprocessing
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from uuid import uuid4

import pytest
from support.concurrency import BackgroundCall
from support.servers import wait_until

from chaos.proxy import Proxy, proxy_to
from pipeweave.errors import Unavailable
from pipeweave.orchestrator.store import other_end, session_settings, silence
from pipeweave.orchestrator.store.database import Database
from pipeweave.up.postgres import Postgres

# The promise is 5 s; a machine that is busy with other things takes longer.
SOON_S = 20.0

LOCK = "SELECT pg_advisory_xact_lock(:lock)"


@pytest.fixture
def proxy(postgres_server: Postgres) -> Iterator[Proxy]:
    with proxy_to(postgres_server.port) as running:
        yield running


@pytest.fixture
def distant_url(database_url: str, postgres_server: Postgres, proxy: Proxy) -> str:
    """The shared database behind the proxy."""
    return database_url.replace(f":{postgres_server.port}/", f":{proxy.port}/")


@pytest.fixture
def distant(distant_url: str) -> Iterator[Database]:
    """The shared database behind the proxy, over one connection."""
    opened = Database(distant_url, pool_size=1)
    yield opened
    opened.dispose()


@pytest.fixture
def lock() -> int:
    """The number of an advisory lock of this test alone."""
    return uuid4().int >> 66


def backend(database: Database) -> int:
    with database.statements() as tx:
        return int(tx.execute("SELECT pg_backend_pid()").scalar_one())


def waits_for_a_lock(database: Database, pid: int) -> bool:
    with database.reading() as tx:
        statement = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = :pid"
        return bool(tx.execute(statement, {"pid": pid}).scalar_one_or_none())


def test_a_statement_on_a_silent_connection_is_unavailable_and_the_next_one_works(
    distant: Database, proxy: Proxy
) -> None:
    silent = backend(distant)
    began = time.monotonic()
    assert proxy.silence() == 1
    with pytest.raises(Unavailable, match="PostgreSQL cannot be used"):
        backend(distant)
    assert backend(distant) != silent
    assert time.monotonic() - began < SOON_S


def test_a_silent_connection_that_was_not_used_for_a_while_is_replaced_unseen(
    distant: Database, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeweave.orchestrator.store.connections.IDLE_S", 0)
    silent = backend(distant)
    proxy.silence()
    assert backend(distant) != silent


def test_a_lost_answer_ends_the_statement(
    distant: Database, database: Database, proxy: Proxy, lock: int
) -> None:
    def wait() -> None:
        with distant.statements() as tx:
            tx.execute(LOCK, {"lock": lock})

    pid = backend(distant)
    with ExitStack() as until_it_ends, database.transaction() as tx:
        tx.execute(LOCK, {"lock": lock})
        waiting = until_it_ends.enter_context(BackgroundCall(wait))
        wait_until(lambda: waits_for_a_lock(database, pid))
        proxy.silence()
    assert isinstance(waiting.error, Unavailable)


def test_what_a_silent_session_holds_is_free_when_its_client_knows(
    distant: Database, database: Database, proxy: Proxy, lock: int
) -> None:
    with pytest.raises(Unavailable), distant.transaction() as tx:
        tx.execute(LOCK, {"lock": lock})
        proxy.silence()
        tx.execute("SELECT 1")
    with database.transaction() as tx:
        statement = "SELECT pg_try_advisory_xact_lock(:lock)"
        assert tx.execute(statement, {"lock": lock}).scalar_one(), "the server ended the session"


def test_of_many_connections_that_go_silent_together_one_is_waited_for(
    distant_url: str, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    several = Database(distant_url, pool_size=4)
    with ExitStack() as open_:
        silent = {
            open_.enter_context(several.statements()).execute("SELECT pg_backend_pid()").scalar_one()
            for _ in range(4)
        }
    assert proxy.silence() == len(silent) == 4
    with caplog.at_level(logging.WARNING), ExitStack() as open_:
        with pytest.raises(Unavailable):
            backend(several)
        fresh = {
            open_.enter_context(several.statements()).execute("SELECT pg_backend_pid()").scalar_one()
            for _ in range(4)
        }
    assert not fresh & silent
    assert [each.message for each in caplog.records].count("session.silent") == 1
    several.dispose()


def test_a_statement_that_takes_long_is_left_alone(
    distant: Database, database: Database, lock: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    findings: list[other_end.ServerActivity] = []

    def ask(dsn: str, waiting: list[other_end.Waiting]) -> list[other_end.ServerActivity]:
        findings.extend(found := asked(dsn, waiting))
        return found

    asked = other_end.ask
    monkeypatch.setattr(other_end, "ask", ask)
    monkeypatch.setattr(silence, "LOOK_EVERY_S", 0.02)
    monkeypatch.setattr(silence, "ASK_AFTER_S", 0.05)
    monkeypatch.setattr(silence, "ASK_EVERY_S", 0.05)

    def wait() -> int:
        with distant.statements() as tx:
            return int(tx.execute(f"{LOCK}; SELECT 7", {"lock": lock}).scalar_one())

    with ExitStack() as until_it_ends, database.transaction() as tx:
        tx.execute(LOCK, {"lock": lock})
        waiting = until_it_ends.enter_context(BackgroundCall(wait))
        wait_until(lambda: len(findings) >= 5)
    assert waiting.result == 7
    assert set(findings) == {other_end.ServerActivity.EXECUTING}


def _is_unavailable_in_time(url: str, answers: multiprocessing.SimpleQueue[str]) -> None:
    database = Database(url, pool_size=1)
    backend(database)
    answers.put("ready")
    try:
        while True:
            backend(database)
    except Unavailable:
        answers.put(f"went on with {backend(database)}")


def test_a_process_that_was_forked_looks_after_its_own_connections(
    distant: Database, distant_url: str, proxy: Proxy
) -> None:
    backend(distant)  # this process watches already
    fork = multiprocessing.get_context("fork")
    answers: multiprocessing.SimpleQueue[str] = fork.SimpleQueue()
    child = fork.Process(target=_is_unavailable_in_time, args=(distant_url, answers), daemon=True)
    child.start()
    try:
        assert answers.get() == "ready"
        proxy.silence()
        child.join(SOON_S)
        assert child.exitcode == 0
        assert answers.get().startswith("went on with ")
    finally:
        child.kill()


@pytest.mark.parametrize("is_verb", [True, False])
def test_both_ends_probe_the_line(distant: Database, is_verb: bool) -> None:
    with distant.statements() if is_verb else distant.reading() as tx:
        statement = "SELECT current_setting(:name)"
        names = [*session_settings.SERVER]
        said = {name: tx.execute(statement, {"name": name}).scalar_one() for name in names}
        line = socket.socket(fileno=tx.connection.fileno())
    try:
        client = [
            line.getsockopt(socket.IPPROTO_TCP, option)
            for option in (
                socket.TCP_KEEPIDLE,
                socket.TCP_KEEPINTVL,
                socket.TCP_KEEPCNT,
                socket.TCP_USER_TIMEOUT,
            )
        ]
        assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    finally:
        line.detach()
    assert client == [2, 1, 3, 5000]
    assert said == {
        "tcp_keepalives_idle": "2",
        "tcp_keepalives_interval": "1",
        "tcp_keepalives_count": "3",
        "tcp_user_timeout": "5000",
        "client_connection_check_interval": "2s",
    }
