"""Fixtures of all tests: real servers, started when the first test asks for them."""

from __future__ import annotations

import functools
import gc
import itertools
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

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
    server_folder,
)

# Collecting thousands of tests makes much that stays and hardly any garbage: looking for it after each 700
# new objects took a sixth of the time.
gc.set_threshold(100_000, 20, 20)

# How long an example takes says more about the machine than about the code. The gate tries the same examples
# each time: it fails for what a change did. `pytest --hypothesis-profile=search` looks for new ones.
for _profile, _same in (("gate", True), ("search", False)):
    settings.register_profile(
        _profile, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=_same
    )
settings.load_profile("gate")

TEMPLATE = "migrated"
_names = itertools.count(1)

# The files that take longest, and then the folders: what waits for processes begins at once, what computes
# fills the gaps, and all test processes end at about the same time.
_LONGEST = (
    "flows/faults/test_losses.py",
    "api/test_contract.py",
    "flows/faults/test_promotions.py",
    "flows/stacks/test_demo.py",
    "unit/testing/test_random_branches.py",
    "flows/stacks/test_up_and_down.py",
    "flows/stacks/test_chaos.py",
    "flows/stacks/test_up_accounts.py",
    "flows/stacks/test_up_stack.py",
    "flows/stacks/test_restart_and_reload.py",
    "ui/looks/test_looks.py",
    "flows/faults/test_broker_faults.py",
    "unit/workers/boxes/test_boxes.py",
    "database/runs/test_random_branches.py",
    "database/diagnosis/test_verify.py",
    "flows/faults/test_clocks.py",
    "flows/workers/test_deploys.py",
    "flows/workers/test_child_replacement.py",
    "database/deadletters/test_retry_of_items_and_tasks.py",
    "flows/celery/test_beside_celery.py",
    "flows/stacks/test_cli_project.py",
    "flows/stacks/test_benchmarks_smoke.py",
    "unit/conformance/test_kit.py",
    "unit/conformance/test_original_sdk.py",
    "unit/conformance/test_our_workers.py",
    "flows/http/test_instances.py",
    "flows/http/test_crashes.py",
    "flows/http/test_http_worker.py",
)
_FOLDERS = ("flows", "ui", "database", "api", "unit")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the files by how long they take; the tests of a file stay together and in their order."""
    items.sort(key=_rank)


def pytest_collection_finish() -> None:
    """Leave what was collected out of every later search for garbage: it lives as long as the process."""
    gc.collect()
    gc.freeze()


def _rank(item: pytest.Item) -> tuple[int, int, bool, str]:
    place, folder, path = _place(item.path)
    return place, folder, not _is_on_oldest(item.nodeid), path


@functools.cache
def _place(file: Path) -> tuple[int, int, str]:
    path = file.relative_to(Path(__file__).parent).as_posix()
    place = _LONGEST.index(path) if path in _LONGEST else len(_LONGEST)
    return place, _FOLDERS.index(path.partition("/")[0]), path


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """`--dist loadfile`, except that one process has all tests on the oldest PostgreSQL, and one has all of
    the architecture.
    """
    return _ByFileAndServer(config, log) if config.getvalue("dist") == "loadfile" else None


class _ByFileAndServer(LoadFileScheduling):
    """Spares the other processes a second server, to change which takes them as long as many tests, and the
    syntax trees of all sources.
    """

    def _split_scope(self, nodeid: str) -> str:
        if _is_on_oldest(nodeid):
            return _OLDEST
        return _ARCHITECTURE if nodeid.startswith(_ARCHITECTURE) else super()._split_scope(nodeid)


_OLDEST = "oldest-postgres"
_ARCHITECTURE = "tests/unit/architecture/"


def _is_on_oldest(nodeid: str) -> bool:
    return f"[{_OLDEST}" in nodeid


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests with the mark `every_postgres` run on the newest and on the oldest PostgreSQL that is here."""
    if (
        metafunc.definition.get_closest_marker("every_postgres")
        and "postgres_server" in metafunc.fixturenames
    ):
        # None, as of tests without the mark: pytest keeps the server as long as the parameter stays the same.
        servers = [pytest.param(None, id="newest"), pytest.param(_OLDEST, id=_OLDEST)]
        metafunc.parametrize("postgres_server", servers, indirect=True, scope="session")


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Undoes what starting a worker in the tests' process does to the log of all tests after it."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    if root.level != level:
        root.setLevel(level)
    root.handlers[:] = handlers
    logging.captureWarnings(False)


@pytest.fixture(scope="session")
def postgres_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Postgres]:
    """A PostgreSQL of this test process."""
    programs = None
    if getattr(request, "param", None) == _OLDEST:
        programs = oldest_postgres()
        if programs is None:
            pytest.skip("the system's packages have no PostgreSQL (on Debian: apt install postgresql)")
    with (
        server_folder(tmp_path_factory.mktemp("postgres-server")) as folder,
        running_postgres(folder, programs) as server,
    ):
        yield server


@pytest.fixture(scope="session")
def machine_with_boxes() -> None:
    """Skips, with the reason, where no process can be confined; that is asked once."""
    from support.boxing import skip_without_boxes

    skip_without_boxes()


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
