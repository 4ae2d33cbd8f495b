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

from support.servers import (
    BrokerDatabases,
    new_database,
    oldest_postgres,
    running_postgres,
    running_valkey,
)

# How long an example takes says more about the machine than about the code.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")

TEMPLATE = "migrated"
_names = itertools.count(1)

# The files that take longest, and then the folders: what waits for processes begins at once, what computes
# fills the gaps, and all test processes end at about the same time.
_LONGEST = (
    "test_up_stack.py",
    "test_run_losses.py",
    "test_demo.py",
    "test_benchmarks_smoke.py",
    "test_chaos.py",
    "test_cli_project.py",
    "test_up_accounts.py",
    "test_run_healing.py",
    "test_run_retries.py",
    "test_run_dead_letters.py",
    "test_run_maintenance.py",
    "test_verify.py",
    "test_contract.py",
)
_FOLDERS = ("flows", "ui", "database", "api", "unit")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the files by how long they take; the tests of a file stay together and in their order."""
    items.sort(key=lambda item: _rank(item.path))


def _rank(path: Path) -> tuple[int, int, str]:
    place = _LONGEST.index(path.name) if path.name in _LONGEST else len(_LONGEST)
    folder = path.relative_to(Path(__file__).parent).parts[0]
    return place, _FOLDERS.index(folder), str(path)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests with the mark `every_postgres` run on the newest and on the oldest PostgreSQL that is here."""
    if (
        metafunc.definition.get_closest_marker("every_postgres")
        and "postgres_server" in metafunc.fixturenames
    ):
        metafunc.parametrize("postgres_server", ["newest", "oldest"], indirect=True, scope="session")


@pytest.fixture(scope="session")
def postgres_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Postgres]:
    """A PostgreSQL of this test process."""
    programs = None
    if getattr(request, "param", "newest") == "oldest":
        programs = oldest_postgres()
        if programs is None:
            pytest.skip("the system's packages have no PostgreSQL (on Debian: apt install postgresql)")
    with running_postgres(tmp_path_factory.mktemp("postgres-server"), programs) as server:
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


@pytest.fixture(scope="session")
def broker_databases(valkey_server: Valkey) -> BrokerDatabases:
    """The databases of this test process's Valkey that tests may have to themselves."""
    return BrokerDatabases(valkey_server)


@pytest.fixture
def fresh_broker_url(broker_databases: BrokerDatabases) -> Iterator[str]:
    """An empty database of Valkey for this test alone."""
    with broker_databases.one() as url:
        yield url
