"""A worker loads what is installed, verified at that moment, and notices when that changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.bundles import a_bundle, id_of, install, key_of, task_entry

from pipeweave.bundles import signing_keys
from pipeweave.bundles.bundled_task import BundledTask
from pipeweave.errors import TaskNotLoaded, Unavailable
from pipeweave.orchestrator.bundles import bundle_keys, revoking
from pipeweave.orchestrator.store import Database, Values
from pipeweave.settings import Settings
from pipeweave.storage import Backends
from pipeweave.workers.boxes import BoxSpec
from pipeweave.workers.bundles import BundleWatch, HostedBundles

MINE = key_of(21)


@pytest.fixture
def values(tmp_path: Path) -> Values:
    return Values(Backends.of(Settings(data_dir=str(tmp_path / "data"))))


@pytest.fixture
def tenant(database: Database, request: pytest.FixtureRequest) -> str:
    name = f"host-{abs(hash(request.node.name)) % 10**9}"
    public = signing_keys.public_bytes(MINE)
    database.run(lambda tx: bundle_keys.add(tx, name, "releases", public, by="test"))
    return name


@contextmanager
def hosted(database: Database, values: Values, tenant: str) -> Iterator[HostedBundles]:
    host = HostedBundles(database, values, tenant)
    try:
        yield host
    finally:
        host.close()
    assert not host.folder.exists()


def test_a_task_of_a_bundle_is_loaded_for_a_box_and_not_imported(
    database: Database, values: Values, tenant: str
) -> None:
    install(database, values, tenant, a_bundle(MINE, tasks=[task_entry(timeout=7, retries=1)]))
    with hosted(database, values, tenant) as host:
        (task,) = host.loaded.tasks.values()
        assert isinstance(task, BundledTask)
        assert (task.spec.timeout, task.spec.retries, task.spec.sandbox is not None) == (7, 1, True)
        with pytest.raises(TaskNotLoaded):
            task.fn()
        assert task.spec.sandbox is not None
        spec = BoxSpec.of_task(tenant, task, task.spec.sandbox)
        assert (spec.module, spec.function, spec.readable) == ("tasks", "charge", (task.folder,))
        assert (spec.code_roots[0] / "tasks.py").is_file()


def test_each_load_compares_the_file_with_its_hashes(database: Database, values: Values, tenant: str) -> None:
    stored = install(database, values, tenant, a_bundle(MINE))
    content = stored.read_bytes()
    at = content.index(b"amount + 1")
    stored.write_bytes(content[:at] + b"amount + 2" + content[at + 10 :])
    with hosted(database, values, tenant) as host:
        assert host.loaded.tasks == {}


def test_an_older_file_that_is_rightly_signed_takes_no_place(
    database: Database, values: Values, tenant: str
) -> None:
    older = install(database, values, tenant, a_bundle(MINE, version="1"))
    newer = install(database, values, tenant, a_bundle(MINE, version="2", files={"src/tasks.py": b"# new"}))
    newer.write_bytes(older.read_bytes())
    with hosted(database, values, tenant) as host:
        assert host.loaded.tasks == {}


def test_what_is_for_another_python_is_not_loaded_and_keeps_no_other_bundle_from_it(
    database: Database, values: Values, tenant: str
) -> None:
    install(database, values, tenant, a_bundle(MINE, python="<3"))
    install(database, values, tenant, a_bundle(MINE, id="till", tasks=[task_entry("refund")]))
    with hosted(database, values, tenant) as host:
        assert set(host.loaded.tasks) == {"refund"}
        assert not host.may_come


def test_a_file_that_storage_does_not_give_is_asked_for_again(
    database: Database, values: Values, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = install(database, values, tenant, a_bundle(MINE))
    assert stored.exists()

    def away(*_: Any, **__: Any) -> bytes:
        raise Unavailable("storage cannot be reached")

    with monkeypatch.context() as patched:
        patched.setattr(type(values.backends.get(values.backends.default_id)), "get", away)
        host = HostedBundles(database, values, tenant)
    assert host.loaded.tasks == {}
    assert not BundleWatch(database, tenant, host).look()
    assert BundleWatch(database, tenant, host, again_after_s=0).look()
    host.close()


def test_a_worker_notices_what_is_installed_and_what_is_revoked(
    database: Database, values: Values, tenant: str
) -> None:
    def is_outdated(host: HostedBundles) -> bool:
        return BundleWatch(database, tenant, host).look()

    with hosted(database, values, tenant) as host:
        assert not is_outdated(host)
        install(database, values, tenant, a_bundle(MINE, version="1"))
        assert is_outdated(host)
    with hosted(database, values, tenant) as host:
        assert not is_outdated(host)
        install(database, values, tenant, a_bundle(MINE, version="2"))
        assert is_outdated(host)
    with hosted(database, values, tenant) as host:
        database.run(lambda tx: revoking.revoke(tx, tenant, "shop"))
        assert is_outdated(host)
    install(database, values, tenant, a_bundle(MINE, version="3"))
    with hosted(database, values, tenant) as host:
        assert set(host.loaded.tasks) == {"charge"}
        database.run(lambda tx: bundle_keys.revoke(tx, tenant, id_of(MINE)))
        assert is_outdated(host)
    with hosted(database, values, tenant) as host:
        assert host.loaded.tasks == {}


def test_another_tenant_loads_none_of_it(database: Database, values: Values, tenant: str) -> None:
    install(database, values, tenant, a_bundle(MINE))
    with hosted(database, values, f"{tenant}-other") as host:
        assert host.loaded.tasks == {}
