"""Fixtures of all tests: real servers, started when the first test asks for them."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from pipeweave.up.postgres import Postgres
from pipeweave.up.valkey import Valkey

# Under importlib's import mode pytest leaves sys.path alone; tests import `support` from here.
sys.path.insert(0, str(Path(__file__).parent))

from support.servers import new_database, running_postgres, running_valkey

# How long an example takes says more about the machine than about the code.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")

TEMPLATE = "migrated"
# Celery's messages in one, the counters of its chords in the next.
_DATABASES_PER_USE = 2
_names = itertools.count(1)


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A PostgreSQL of this test process."""
    with running_postgres(tmp_path_factory.mktemp("postgres-server")) as server:
        yield server


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    """A Valkey of this test process."""
    with running_valkey(tmp_path_factory.mktemp("valkey-server")) as server:
        yield server


@pytest.fixture(scope="session")
def database_template(postgres_server: Postgres) -> Iterator[str]:
    """The name of a database that went through every migration and holds nothing else."""
    from pipeweave.orchestrator.deployment import migrate

    with new_database(postgres_server, TEMPLATE) as url:
        migrate.upgrade(url)
        yield TEMPLATE


@pytest.fixture(scope="session")
def database_url(postgres_server: Postgres, database_template: str) -> Iterator[str]:
    """A migrated database shared by the tests of this process: roll back, or use names of your own."""
    with new_database(postgres_server, "shared", database_template) as url:
        yield url


@pytest.fixture
def fresh_database_url(postgres_server: Postgres, database_template: str) -> Iterator[str]:
    """A migrated database for this test alone."""
    with new_database(postgres_server, f"fresh_{next(_names)}", database_template) as url:
        yield url


@pytest.fixture(scope="session")
def broker_url(valkey_server: Valkey) -> str:
    """A Valkey of this test process alone: its first database."""
    return valkey_server.url


@pytest.fixture
def fresh_broker_url(valkey_server: Valkey) -> str:
    """A database of Valkey for this test alone; the one after it is left free for chord counters."""
    return valkey_server.url_of(next(_names) * _DATABASES_PER_USE % 256)
