"""The servers that `up` and the tests start."""

from __future__ import annotations

import psycopg2
import pytest
import redis

from pipeweave.up.postgres import Postgres
from pipeweave.up.valkey import Valkey


def ask(url: str, question: str) -> str:
    connection = psycopg2.connect(url)
    try:
        with connection.cursor() as cursor:
            cursor.execute(question)
            row = cursor.fetchone()
            assert row
            return str(row[0])
    finally:
        connection.close()


def test_postgres_takes_a_password_and_gives_an_ordinary_role(postgres_server: Postgres) -> None:
    assert ask(postgres_server.url, "SHOW is_superuser") == "off"
    assert ask(postgres_server.url, "SELECT current_database()") == "pipeweave"


def test_postgres_refuses_a_wrong_password(postgres_server: Postgres) -> None:
    wrong = postgres_server.url.replace(postgres_server.password, "wrong")
    with pytest.raises(psycopg2.OperationalError, match="password authentication failed"):
        psycopg2.connect(wrong)


def test_postgres_listens_on_the_loopback_address_only(postgres_server: Postgres) -> None:
    assert ask(postgres_server.url, "SHOW listen_addresses") == "127.0.0.1"
    assert ask(postgres_server.admin_url, "SHOW unix_socket_directories") == ""


def test_valkey_refuses_clients_without_the_password(valkey_server: Valkey) -> None:
    with redis.Redis(port=valkey_server.port) as client, pytest.raises(redis.AuthenticationError):
        client.ping()
    with redis.Redis.from_url(valkey_server.url_of(255)) as client:
        assert client.ping()


def test_a_fresh_database_is_migrated_and_empty(fresh_database_url: str) -> None:
    assert int(ask(fresh_database_url, "SELECT count(*) FROM tenants")) >= 0
