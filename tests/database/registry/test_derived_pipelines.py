"""Pipelines that `allowedNext` of HTTP services describes."""

from __future__ import annotations

from typing import Any

import pytest
from support.factories import a_chain, a_task, register

from pipeweave.errors import NotFound
from pipeweave.orchestrator.registry import derived_pipelines, pipelines
from pipeweave.orchestrator.store.database import Transaction

TENANT = "derived-tests"


def serve(tx: Transaction, service: str, **after: list[str]) -> None:
    """Register an HTTP service whose tasks have these successors."""
    tasks = [a_task(id, allowed_next=each) for id, each in after.items()]
    register(tx, TENANT, *tasks, id=service, kind="http", base_url=f"http://localhost/{service}")


def needs(tx: Transaction, id: str) -> dict[str, tuple[str, ...]]:
    return {step.id: step.needs for step in pipelines.get(tx, TENANT, id).spec.steps}


def warnings(caplog: pytest.LogCaptureFixture) -> list[Any]:
    return [each.__dict__["pipeline_id"] for each in caplog.records if each.msg == "pipeline.not_derived"]


def test_an_entry_task_of_a_service_names_a_pipeline(tx: Transaction) -> None:
    serve(tx, "node", download=["text", "tables"], text=["join"], tables=["join"], join=[], lone=[])
    assert needs(tx, "download") == {
        "download": (),
        "text": ("download",),
        "tables": ("download",),
        "join": ("tables", "text"),
    }
    assert pipelines.get(tx, TENANT, "download").source == "derived"
    for id in ("text", "join", "lone"):
        with pytest.raises(NotFound):
            pipelines.get(tx, TENANT, id)


def test_other_successors_make_another_version(tx: Transaction) -> None:
    serve(tx, "node", first=["second"], second=[], third=[])
    serve(tx, "node", first=["second"], second=[], third=[])
    assert pipelines.get(tx, TENANT, "first").version == 1
    serve(tx, "node", first=["second", "third"], second=[], third=[])
    assert pipelines.get(tx, TENANT, "first").version == 2
    assert set(needs(tx, "first")) == {"first", "second", "third"}


def test_a_pipeline_of_two_services_is_whole_when_both_have_registered(
    tx: Transaction, caplog: pytest.LogCaptureFixture
) -> None:
    serve(tx, "node", first=["second"])
    assert warnings(caplog) == ["first"]
    serve(tx, "others", second=["third"], third=[])
    assert list(needs(tx, "first")) == ["first", "second", "third"]
    with pytest.raises(NotFound):
        pipelines.get(tx, TENANT, "second")


def test_a_cycle_does_not_keep_a_service_from_registering(
    tx: Transaction, caplog: pytest.LogCaptureFixture
) -> None:
    serve(tx, "node", begin=["ask"], ask=["answer"], answer=["ask"], good=["end"], end=[], loop=["loop"])
    assert warnings(caplog) == ["begin"]
    assert list(needs(tx, "good")) == ["good", "end"]


def test_a_pipeline_that_somebody_wrote_is_kept(tx: Transaction) -> None:
    register(tx, TENANT, "mail")
    pipelines.store(tx, TENANT, a_chain("mail", id="first"), source="api")
    serve(tx, "node", first=["second"], second=[])
    assert pipelines.get(tx, TENANT, "first").version == 1
    assert set(needs(tx, "first")) == {"mail"}


def test_a_service_with_endless_pipelines_registers(
    tx: Transaction, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(derived_pipelines, "MOST_PARTS", 8)
    serve(tx, "node", a=["z"], b=["z"], c=["z"], z=[])
    assert warnings(caplog) == ["c"]
    assert set(needs(tx, "b")) == {"b", "z"}
