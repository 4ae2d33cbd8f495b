"""A process that differs from the others in storage, keys or networks is refused, and doctor says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.factories import register

from pipeweave.errors import InvalidSetting
from pipeweave.orchestrator.deployment import shared_settings
from pipeweave.orchestrator.diagnosis import check_processes
from pipeweave.orchestrator.diagnosis.doctor import Severity
from pipeweave.orchestrator.store.database import Database
from pipeweave.settings import Settings
from pipeweave.workers.process.launch import run_worker

KEY, OTHER_KEY = "k" * 64, "o" * 64


def bucket(name: str, **members: Any) -> Mapping[str, Any]:
    credentials = {"accessKey": "a", "secretKey": "s"}
    return {
        "id": name,
        "provider": "minio",
        "endpoint": "http://s3:9000",
        "bucket": name,
        "credentials": credentials,
        **members,
    }


def settings_of(url: str, **given: Any) -> Settings:
    own = {"secret_key": KEY, "storage_backends": (bucket("main"),), "dispatch_networks": ("loopback",)}
    return Settings(**{"database_url": url, "broker_url": "redis://127.0.0.1:1/0", **own, **given})


@pytest.fixture
def of_others(fresh_database: Database, fresh_database_url: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings of a deployment in which a worker lives."""
    settings = settings_of(fresh_database_url)
    shared_settings.require_same(fresh_database, settings, "worker-1@there")
    with fresh_database.transaction() as tx:
        tx.execute(
            "INSERT INTO workers (id, tenant_id, service_id, name, hostname, pid, concurrency, task_count, "
            "started_at, heartbeat_at) VALUES ('w', 'default', 'dispatcher', 'w', 'there', 1, 1, 0, now(), "
            "now() + interval '1 hour')"
        )
    monkeypatch.setattr(shared_settings, "WAITS_S", 0.0)
    return settings


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"secret_key": OTHER_KEY}, "PIPEWEAVE_SECRET_KEY"),
        ({"worker_secrets": "service"}, "PIPEWEAVE_SECRET_KEY"),
        ({"storage_backends": ()}, "STORAGE_BACKENDS"),
        ({"storage_backends": (bucket("main", bucket="elsewhere"),)}, "STORAGE_BACKENDS"),
        ({"storage_backends": (bucket("main"), bucket("new", isDefault=True))}, "STORAGE_BACKENDS"),
        ({"dispatch_networks": ("loopback", "private")}, "DISPATCH_NETWORKS"),
    ],
)
def test_a_process_that_differs_is_refused_and_told_in_what_and_from_whom(
    fresh_database: Database, of_others: Settings, given: Mapping[str, Any], field: str
) -> None:
    other = replace(of_others, **given)
    with pytest.raises(InvalidSetting) as refused:
        shared_settings.require_same(fresh_database, other, "dispatcher@here")
    assert [each.field for each in refused.value.errors] == [field]
    assert refused.value.detail == f"{field} differs from that of worker-1@there"
    verdict = check_processes.same_settings(other)
    assert (verdict.level, verdict.line) == (Severity.WARNING, refused.value.detail)
    assert check_processes.same_settings(of_others).level is Severity.OK


@pytest.mark.parametrize(
    "given",
    [
        {"storage_backends": (bucket("main"), bucket("more"))},
        {"storage_backends": (bucket("main", credentials={"accessKey": "b", "secretKey": "t"}),)},
        {"secret_key": None},
        {"max_concurrency": 3, "dispatch_networks": ("loopback",)},
    ],
)
def test_what_may_be_changed_one_process_after_another_is_let_through(
    fresh_database: Database, of_others: Settings, given: Mapping[str, Any]
) -> None:
    shared_settings.require_same(fresh_database, replace(of_others, **given), "worker-2@here")


def test_a_process_without_the_key_is_refused_where_http_services_need_it(
    fresh_database: Database, of_others: Settings
) -> None:
    with fresh_database.transaction() as tx:
        register(tx, "default", "send", id="shop", kind="http", base_url="http://shop:3001")
    with pytest.raises(
        InvalidSetting, match="PIPEWEAVE_SECRET_KEY is not set, unlike that of worker-1@there"
    ):
        shared_settings.require_same(fresh_database, replace(of_others, secret_key=None), "dispatcher@here")


def test_a_process_without_a_key_does_not_make_that_of_the_others_forgotten(
    fresh_database: Database, of_others: Settings
) -> None:
    shared_settings.require_same(fresh_database, replace(of_others, secret_key=None), "worker-2@here")
    with pytest.raises(InvalidSetting, match="PIPEWEAVE_SECRET_KEY differs"):
        shared_settings.require_same(fresh_database, replace(of_others, secret_key=OTHER_KEY), "api@here")


def test_when_no_other_process_lives_new_settings_count(
    fresh_database: Database, of_others: Settings
) -> None:
    with fresh_database.transaction() as tx:
        tx.execute("UPDATE workers SET stopped_at = now()")
    changed = replace(of_others, secret_key=OTHER_KEY, storage_backends=())
    shared_settings.require_same(fresh_database, changed, "api@here")
    assert check_processes.same_settings(changed).level is Severity.OK


def test_a_folder_is_compared_on_its_own_host_alone(
    fresh_database: Database, of_others: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def local(folder: str) -> Settings:
        return replace(of_others, storage_backends=(), data_dir=str(tmp_path / folder))

    with fresh_database.transaction() as tx:
        tx.execute("DELETE FROM leases")
    shared_settings.require_same(fresh_database, local("one"), "worker-1@here")
    with pytest.raises(InvalidSetting, match="STORAGE_BACKENDS differs"):
        shared_settings.require_same(fresh_database, local("two"), "worker-2@here")
    monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
    shared_settings.require_same(fresh_database, local("two"), "worker-2@elsewhere")


def test_a_refused_worker_has_registered_nothing(fresh_database: Database, of_others: Settings) -> None:
    with pytest.raises(InvalidSetting, match="STORAGE_BACKENDS differs"):
        run_worker(replace(of_others, storage_backends=()), [])
    with fresh_database.transaction() as tx:
        assert list(tx.execute("SELECT id FROM workers").scalars()) == ["w"]
