"""Pipelines in numbered versions that never change."""

from __future__ import annotations

import threading
from typing import Any

import psycopg2
import pytest
from support.factories import a_chain, a_task, register, remove_task

from pipeweave.errors import InvalidInput, InvalidSpec, NotFound
from pipeweave.orchestrator.reading.version_list import pipeline_versions
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.keyset import PageRequest
from pipeweave.spec.document import parse_spec
from pipeweave.spec.pipeline_spec import PipelineSpec, StepSpec

TENANT = "pipeline-tests"


@pytest.fixture
def known(tx: Transaction) -> Transaction:
    """A transaction in which tasks a, b and c are registered."""
    register(tx, TENANT, "a", "b", "c")
    return tx


def store(tx: Transaction, spec: PipelineSpec, tenant: str = TENANT) -> pipelines.StoredVersion:
    return pipelines.store(tx, tenant, spec, source="api")


def test_the_first_version_is_1_and_a_different_spec_makes_the_next(known: Transaction) -> None:
    first = store(known, a_chain("a", "b"))
    second = store(known, a_chain("b", "a"))
    assert (first.version, first.is_new) == (1, True)
    assert (second.version, second.is_new) == (2, True)
    assert first.spec_hash != second.spec_hash


def test_the_same_spec_makes_no_new_version(known: Transaction) -> None:
    store(known, a_chain("a", "b"))
    again = store(known, a_chain("a", "b"))
    assert (again.version, again.is_new) == (1, False)


def test_going_back_to_an_older_spec_makes_a_new_version(known: Transaction) -> None:
    for tasks in (("a", "b"), ("b", "a"), ("a", "b")):
        stored = store(known, a_chain(*tasks))
    assert (stored.version, stored.is_new) == (3, True)


def test_every_version_stays_as_it_was_stored(known: Transaction) -> None:
    specs = [a_chain("a", "b"), a_chain("b", "a"), a_chain("a", "b", "c")]
    for spec in specs:
        store(known, spec)
    assert [pipelines.get(known, TENANT, "chain", at).spec for at in (1, 2, 3)] == specs
    assert pipelines.get(known, TENANT, "chain").version == 3


def test_a_stored_version_refuses_to_be_changed(known: Transaction) -> None:
    store(known, a_chain("a"))
    with pytest.raises(psycopg2.Error, match="immutable"):
        known.execute("UPDATE pipeline_versions SET source = 'derived' WHERE tenant_id = :t", {"t": TENANT})


def test_versions_are_listed_newest_first_page_by_page(known: Transaction) -> None:
    for tasks in (("a",), ("b",), ("c",)):
        store(known, a_chain(*tasks))
    first = pipeline_versions(known, TENANT, "chain", PageRequest(2))
    assert [each["version"] for each in first["items"]] == [3, 2]
    rest = pipeline_versions(known, TENANT, "chain", PageRequest(2, first["nextCursor"]))
    assert ([each["version"] for each in rest["items"]], rest["nextCursor"]) == ([1], None)


def test_a_cursor_of_another_list_is_refused(known: Transaction) -> None:
    store(known, a_chain("a"))
    for cursor in ("nonsense", "WyJ0YXNrcyIsImEiXQ", "WyJ2ZXJzaW9ucyIsIngiXQ", "é", "bnVsbA"):
        with pytest.raises(InvalidInput, match="cursor"):
            pipeline_versions(known, TENANT, "chain", PageRequest(2, cursor))


@pytest.mark.parametrize("limit", [0, -1, 1_001, True])
def test_a_limit_out_of_range_is_refused(limit: int) -> None:
    with pytest.raises(InvalidInput, match="limit"):
        PageRequest(limit)


# --- what is not there ------------------------------------------------------------------------------------


def test_an_unknown_pipeline_or_version_is_not_found(known: Transaction) -> None:
    store(known, a_chain("a"))
    for name, version in (("nothing", None), ("chain", 2), ("chain", 0), ("nothing", 1)):
        with pytest.raises(NotFound):
            pipelines.get(known, TENANT, name, version)
    with pytest.raises(NotFound):
        pipeline_versions(known, TENANT, "nothing", PageRequest())


def test_another_tenants_pipeline_is_not_found(known: Transaction) -> None:
    store(known, a_chain("a"))
    with pytest.raises(NotFound):
        pipelines.get(known, "another-tenant", "chain")


def test_params_that_a_task_does_not_take_are_named_and_nothing_is_stored(tx: Transaction) -> None:
    field = {"name": "folder", "label": "Folder", "type": "string", "required": True}
    parameters = {"fields": [field], "strict": True}
    register(tx, TENANT, a_task("a", parameters=parameters))
    with pytest.raises(InvalidSpec, match="did you mean 'folder'") as refused:
        store(tx, parse_spec({"id": "p", "steps": [{"task": "a", "params": {"fodler": 1}}]}))
    assert [each.field for each in refused.value.errors] == ["steps[0].params.fodler", "steps[0].params"]
    assert [each["code"] for each in refused.value.context["graphErrors"]] == [
        "UNKNOWN_PARAMETER",
        "MISSING_PARAMETER",
    ]
    assert store(tx, parse_spec({"id": "p", "steps": [{"task": "a", "params": {"folder": 1}}]})).is_new
    # A worker that starts again with the same pipeline is not kept from it by a task that changed.
    register(tx, TENANT, a_task("a", "second", parameters={"fields": [], "strict": True}))
    assert not store(tx, parse_spec({"id": "p", "steps": [{"task": "a", "params": {"folder": 1}}]})).is_new
    # A service that does not say what its tasks take.
    register(tx, TENANT, a_task("a"))
    assert store(tx, parse_spec({"id": "p", "steps": [{"task": "a", "params": {"other": 1}}]})).is_new


def test_a_step_of_an_unknown_task_is_named_and_nothing_is_stored(known: Transaction) -> None:
    with pytest.raises(InvalidSpec) as refused:
        store(known, a_chain("a", "nothing", "never"))
    assert [each.field for each in refused.value.errors] == ["steps[1].task", "steps[2].task"]
    assert [each["code"] for each in refused.value.context["graphErrors"]] == ["UNKNOWN_TASK"] * 2
    assert [each["steps"] for each in refused.value.context["graphErrors"]] == [["nothing"], ["never"]]
    with pytest.raises(NotFound):
        pipelines.get(known, TENANT, "chain")


def test_a_task_of_another_tenant_is_unknown(known: Transaction) -> None:
    with pytest.raises(InvalidSpec):
        store(known, a_chain("a"), "another-tenant")


def test_a_task_that_was_removed_is_unknown(tx: Transaction) -> None:
    register(tx, TENANT, "a", "b")
    remove_task(tx, TENANT, "a")
    with pytest.raises(InvalidSpec):
        store(tx, a_chain("a"))


@pytest.mark.parametrize(
    "steps",
    [
        (StepSpec("x", "a", ("y",)), StepSpec("y", "a", ("x",))),
        (StepSpec("x", "a", ("nowhere",)),),
        (StepSpec("x", "a"), StepSpec("x", "a")),
        (),
        (StepSpec("x", "a", params={"n": object()}),),
        (StepSpec("not an id", "a"),),
    ],
)
def test_a_spec_that_was_made_by_hand_and_is_wrong_stores_nothing(
    known: Transaction, steps: tuple[StepSpec, ...]
) -> None:
    with pytest.raises(InvalidSpec):
        store(known, PipelineSpec("wrong", steps))
    assert known.execute("SELECT count(*) FROM pipelines WHERE id = 'wrong'").scalar_one() == 0


# --- what a process remembers -----------------------------------------------------------------------------


def statements_of(tx: Transaction, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    told: list[str] = []
    execute = tx.execute

    def record(statement: str, parameters: Any = None) -> Any:
        told.append(statement)
        return execute(statement, parameters)

    monkeypatch.setattr(tx, "execute", record)
    return told


def test_a_known_version_is_read_once_but_the_latest_number_always(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = "pipelines-remembered"
    with database.transaction() as tx:
        register(tx, tenant, "a")
        store(tx, a_chain("a"), tenant)
    with database.transaction() as tx:
        pipelines.get(tx, tenant, "chain")
    with database.transaction() as tx:
        told = statements_of(tx, monkeypatch)
        assert pipelines.get(tx, tenant, "chain", 1).version == 1
        assert told == []
        pipelines.get(tx, tenant, "chain")
        assert len(told) == 1


def test_a_version_of_a_rolled_back_transaction_is_not_remembered(database: Database) -> None:
    tenant = "pipelines-rolled-back"
    with pytest.raises(ZeroDivisionError), database.transaction() as tx:
        register(tx, tenant, "a", "b")
        store(tx, a_chain("a"), tenant)
        assert pipelines.get(tx, tenant, "chain").spec == a_chain("a")
        raise ZeroDivisionError
    with database.transaction() as tx:
        register(tx, tenant, "a", "b")
        store(tx, a_chain("b"), tenant)
        assert pipelines.get(tx, tenant, "chain").spec == a_chain("b")


# --- at the same time -------------------------------------------------------------------------------------


def together(database: Database, tenant: str, specs: list[PipelineSpec]) -> list[pipelines.StoredVersion]:
    """Store each spec on a connection of its own, all at once."""
    barrier = threading.Barrier(len(specs))
    stored: list[pipelines.StoredVersion] = []

    def one(spec: PipelineSpec) -> None:
        own = Database(database.url, pool_size=0)
        with own.transaction() as tx:
            barrier.wait(60)
            stored.append(store(tx, spec, tenant))

    threads = [threading.Thread(target=one, args=(spec,)) for spec in specs]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    return sorted(stored, key=lambda each: each.version)


def test_the_same_pipeline_stored_by_several_at_once_is_one_version(database: Database) -> None:
    with database.transaction() as tx:
        register(tx, "pipelines-same", "a")
    stored = together(database, "pipelines-same", [a_chain("a")] * 3)
    assert [each.version for each in stored] == [1, 1, 1]
    assert sum(each.is_new for each in stored) == 1


def test_different_specs_stored_at_once_become_numbered_versions(database: Database) -> None:
    with database.transaction() as tx:
        register(tx, "pipelines-different", "a", "b", "c")
    specs = [a_chain("a"), a_chain("b"), a_chain("c")]
    stored = together(database, "pipelines-different", specs)
    assert [each.version for each in stored] == [1, 2, 3]
    with database.transaction() as tx:
        kept = {pipelines.get(tx, "pipelines-different", "chain", at).spec_hash for at in (1, 2, 3)}
    assert kept == {spec.spec_hash for spec in specs}


def test_a_spec_comes_back_as_it_was_stored(known: Transaction) -> None:
    spec = parse_spec(
        {
            "id": "full",
            "description": "grüße",
            "failureMode": "continue",
            "priority": 5,
            "defaults": {"limit": 3},
            "steps": [
                {"id": "list", "task": "a", "params": {"deep": True, "n": 1.5}},
                {"id": "each", "task": "b", "map": {"over": "${steps.list.paths}", "as": "path"}},
                {"id": "end", "task": "c", "params": {"rows": "${steps.each}"}},
            ],
        }
    )
    store(known, spec)
    stored = pipelines.get(known, TENANT, "full")
    assert (stored.spec, stored.spec_hash, stored.source) == (spec, spec.spec_hash, "api")
    assert stored.spec.spec_hash == spec.spec_hash
