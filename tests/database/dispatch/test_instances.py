"""Instances of HTTP services register, are set aside when they refuse, and come back."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave.errors import NotFound
from pipeweave.orchestrator.registry import instances
from pipeweave.orchestrator.registry.instances import Instance
from pipeweave.orchestrator.registry.registration import Registration, TaskRegistration
from pipeweave.orchestrator.runs import service_registration
from pipeweave.orchestrator.store.database import Transaction

TENANT, HASH = "instances", "a" * 16
ONE, TWO = "http://10.0.0.1:3001", "http://10.0.0.2:3001"


def register(tx: Transaction, url: str, *task_ids: str, version: str = "1", hash: str = HASH) -> Any:
    tasks = [TaskRegistration(each, hash) for each in task_ids]
    return service_registration.register(tx, TENANT, Registration("mailer", version, "http", url, tasks))


def ready(tx: Transaction) -> list[str]:
    found = instances.of_service(tx, TENANT, "mailer")
    return [each.base_url for each in found if each.set_aside_at is None]


def status(tx: Transaction) -> str:
    row: Any = tx.execute("SELECT status FROM services WHERE tenant_id = :t AND id = 'mailer'", {"t": TENANT})
    return str(row.one().status)


def test_several_instances_take_dispatches(tx: Transaction) -> None:
    register(tx, ONE, "mail")
    register(tx, TWO, "mail")
    assert ready(tx) == [ONE, TWO]


def test_an_instance_that_registers_again_changes_nothing(tx: Transaction) -> None:
    register(tx, ONE, "mail")
    register(tx, TWO, "mail", version="2", hash="b" * 16)
    again = register(tx, ONE, "mail")
    assert again.code_changes == []
    task: Any = tx.execute("SELECT code_version, code_hash FROM tasks WHERE id = 'mail'").one()
    assert (task.code_version, task.code_hash) == (2, "b" * 16)


def test_a_removed_task_comes_back_with_the_same_registration(tx: Transaction) -> None:
    register(tx, ONE, "mail", "sms")
    register(tx, ONE, "mail", version="2")
    assert register(tx, ONE, "mail", "sms", version="3").orphaned_tasks == []
    row: Any = tx.execute("SELECT orphaned_at FROM tasks WHERE id = 'sms'").one()
    assert row.orphaned_at is None


def test_a_task_that_another_live_instance_has_is_not_removed(tx: Transaction) -> None:
    register(tx, ONE, "mail", "sms")
    assert register(tx, TWO, "mail", version="2").orphaned_tasks == []
    instances.set_aside(tx, TENANT, "mailer", ONE, "connection refused")
    assert register(tx, TWO, "mail", version="3").orphaned_tasks == ["sms"]


def test_a_service_is_disconnected_when_its_last_instance_is_set_aside(tx: Transaction) -> None:
    register(tx, ONE, "mail")
    register(tx, TWO, "mail")
    instances.set_aside(tx, TENANT, "mailer", ONE, "connection refused")
    assert (ready(tx), status(tx)) == ([TWO], "active")
    instances.set_aside(tx, TENANT, "mailer", TWO, "no answer")
    assert (ready(tx), status(tx)) == ([], "disconnected")
    instances.bring_back(tx, TENANT, "mailer", ONE)
    assert (ready(tx), status(tx)) == ([ONE], "active")


_PAUSE = "SELECT extract(epoch FROM probe_at - now()) AS s FROM service_instances WHERE tenant_id = :t"


def test_an_instance_is_asked_less_and_less_often(tx: Transaction) -> None:
    register(tx, ONE, "mail")
    pauses = []
    for _ in range(10):
        instances.set_aside(tx, TENANT, "mailer", ONE, "connection refused")
        row: Any = tx.execute(_PAUSE, {"t": TENANT}).one()
        pauses.append(float(row.s))
    assert pauses[:4] == [1, 2, 4, 8]
    assert pauses[-1] == 60


def test_a_probe_is_taken_once(tx: Transaction) -> None:
    register(tx, ONE, "mail")
    instances.set_aside(tx, TENANT, "mailer", ONE, "connection refused")
    tx.execute("UPDATE service_instances SET probe_at = now() WHERE tenant_id = :t", {"t": TENANT})
    assert [(each.base_url, each.refusals) for each in probes(tx)] == [(ONE, 1)]
    assert probes(tx) == []


def probes(tx: Transaction) -> list[Instance]:
    """The probes of this test: others may have left instances whose time has come."""
    return [each for each in instances.take_probes(tx, 1_000) if each.tenant == TENANT]


def test_a_service_without_instances_is_inactive(tx: Transaction) -> None:
    register(tx, ONE, "mail")
    register(tx, TWO, "mail")
    instances.remove(tx, TENANT, "mailer", ONE)
    assert (ready(tx), status(tx)) == ([TWO], "active")
    instances.remove(tx, TENANT, "mailer", TWO)
    assert (ready(tx), status(tx)) == ([], "inactive")
    register(tx, TWO, "mail")
    assert status(tx) == "active"


def test_an_instance_that_is_not_there_cannot_be_removed(tx: Transaction) -> None:
    register(tx, ONE, "mail")
    with pytest.raises(NotFound):
        instances.remove(tx, TENANT, "mailer", TWO)


_SILENT = """UPDATE service_instances SET set_aside_at = now() - interval '8 days',
    last_seen_at = now() - interval '8 days' WHERE tenant_id = :t"""


def test_an_instance_that_was_silent_for_a_week_is_forgotten(tx: Transaction) -> None:
    register(tx, ONE, "mail")
    instances.set_aside(tx, TENANT, "mailer", ONE, "connection refused")
    assert instances.forget_gone(tx) == 0
    tx.execute(_SILENT, {"t": TENANT})
    assert instances.forget_gone(tx) == 1


def test_an_instance_that_takes_dispatches_was_seen(tx: Transaction) -> None:
    register(tx, ONE, "mail")
    tx.execute(
        "UPDATE service_instances SET last_seen_at = now() - interval '1 hour' WHERE tenant_id = :t",
        {"t": TENANT},
    )
    tx.execute("UPDATE services SET last_heartbeat = now() - interval '1 hour' WHERE id = 'mailer'")
    instances.seen(tx, TENANT, "mailer", ONE)
    row: Any = tx.execute(
        "SELECT last_seen_at = now() AS i, last_heartbeat = now() AS s FROM service_instances AS i "
        "JOIN services AS s ON s.id = i.service_id WHERE i.service_id = 'mailer'"
    ).one()
    assert (row.i, row.s) == (True, True)
