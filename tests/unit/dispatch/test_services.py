"""Which instances of a service get a dispatch."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pipeweave.orchestrator.dispatch.services import DispatchService
from pipeweave.orchestrator.registry.instances import Instance

ASIDE = datetime(2026, 11, 20, tzinfo=UTC)


def an_instance(url: str, *, set_aside: bool = False, drains: bool = False) -> Instance:
    return Instance("t", "mailer", url, frozenset({"send"}), ASIDE if set_aside else None, drains=drains)


def of(*instances: Instance) -> DispatchService:
    return DispatchService("t", "mailer", "token", "sdk", False, 60_000, 30.0, instances)


def chosen(service: DispatchService) -> list[str]:
    def in_order(found: Sequence[Any], number: int) -> list[Any]:
        return list(found[:number])

    return [each.base_url for each in service.candidates("send", in_order)]


def test_an_instance_that_drains_gets_none() -> None:
    service = of(an_instance("a", drains=True), an_instance("b"), an_instance("c", set_aside=True))
    assert chosen(service) == ["b"]
    assert not service.only_drains("send")


def test_one_that_was_set_aside_may_be_asked_but_not_one_that_drains() -> None:
    assert chosen(of(an_instance("a", drains=True), an_instance("c", set_aside=True))) == ["c"]
    drained = of(an_instance("a", drains=True), an_instance("c", set_aside=True, drains=True))
    assert chosen(drained) == []
    assert drained.only_drains("send")


def test_a_service_without_the_task_does_not_drain() -> None:
    assert not of().only_drains("send")
    assert not of(an_instance("a", drains=True)).only_drains("another")
