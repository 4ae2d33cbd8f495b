"""A URL of a database becomes one that PostgreSQL's client library reads."""

from __future__ import annotations

import pytest
from psycopg2.extensions import parse_dsn

from pipeweave.orchestrator.store.hosts import Hosts


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://u:p@h:5433/d", {"user": "u", "password": "p", "host": "h", "port": "5433"}),
        ("postgres://u@h/d", {"user": "u", "host": "h"}),
        ("postgresql+psycopg2://u@h/d", {"user": "u", "host": "h"}),
        ("postgresql+psycopg2://u@/d?host=h:5433", {"user": "u", "host": "h", "port": "5433"}),
        ("postgresql://u@/d?host=/run/postgres", {"user": "u", "host": "/run/postgres"}),
        ("postgresql:///d", {}),
        ("postgresql://u:a%2Fb+c@h/d", {"user": "u", "password": "a/b+c", "host": "h"}),
        ("postgresql://u:100%@h/d", {"user": "u", "password": "100%", "host": "h"}),
        ("postgresql://u@[::1]:5433/d", {"user": "u", "host": "::1", "port": "5433"}),
        ("postgresql://u@h/d?sslmode=require", {"user": "u", "host": "h", "sslmode": "require"}),
    ],
)
def test_the_client_library_reads(url: str, expected: dict[str, str]) -> None:
    hosts = Hosts(url)
    assert parse_dsn(hosts.url) == {"dbname": "d", **expected}
    assert hosts.arguments() == {}


@pytest.mark.parametrize("url", ["postgresql://u@a:1,b:2/d", "postgresql+psycopg2://u@/d?host=a:1&host=b:2"])
def test_several_hosts_are_arguments_of_their_own(url: str) -> None:
    hosts = Hosts(url)
    assert parse_dsn(hosts.url) == {"user": "u", "host": "a", "port": "1", "dbname": "d"}
    assert hosts.arguments() == {"host": "a,b", "port": "1,2"}
