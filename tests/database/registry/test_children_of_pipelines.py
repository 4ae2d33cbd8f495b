"""A pipeline that runs others is compared with them when it is stored."""

from __future__ import annotations

from typing import Any

import pytest
from support.factories import register

from pipeweave.errors import InvalidSpec
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import ChildPipeline, PipelineSpec, parse_spec

TENANT = "children-tests"

# A second version of `charge` as a later build stores it.
LATER_VERSION = """
WITH later AS (
    INSERT INTO pipeline_versions SELECT (jsonb_populate_record(v, jsonb_build_object('version', 2,
        'spec_hash', repeat('0', 64), 'spec', jsonb_set(v.spec, '{steps,0,laterKey}', '1')))).*
    FROM pipeline_versions AS v WHERE v.tenant_id = :tenant AND v.pipeline_id = 'charge'
)
UPDATE pipelines SET latest_version = 2 WHERE tenant_id = :tenant AND id = 'charge'
"""


@pytest.fixture
def known(tx: Transaction) -> Transaction:
    """A transaction in which the task `a` is registered."""
    register(tx, TENANT, "a")
    return tx


def charge(*names: str, id: str = "charge", steps: Any = None) -> PipelineSpec:
    """A pipeline that needs these inputs."""
    fields = [{"name": each, "label": each, "type": "json", "required": True} for each in names]
    steps = steps or [{"id": "work", "task": "a"}]
    return parse_spec({"id": id, "inputSchema": {"fields": fields, "strict": True}, "steps": steps})


def orders(pipeline: Any = "charge", **params: Any) -> PipelineSpec:
    step = {"id": "pay", "pipeline": pipeline, "params": params}
    return parse_spec({"id": "orders", "steps": [step]})


def store(
    tx: Transaction, spec: PipelineSpec, *beside: PipelineSpec, tenant: str = TENANT
) -> pipelines.StoredVersion:
    return pipelines.store(tx, tenant, spec, source="api", beside=beside)


def unknown(tx: Transaction, spec: PipelineSpec) -> list[str]:
    children = pipelines.children_of(tx, TENANT, spec)
    return [each.message for each in pipelines.unknown_children(tx, TENANT, spec, children)]


def test_params_that_the_pipeline_does_not_take_are_named_and_nothing_is_stored(known: Transaction) -> None:
    store(known, charge("amount"))
    with pytest.raises(InvalidSpec, match="did you mean 'amount'") as refused:
        store(known, orders(amuont=1))
    assert [each.field for each in refused.value.errors] == ["steps[0].params.amuont", "steps[0].params"]
    assert [each["code"] for each in refused.value.context["graphErrors"]] == [
        "UNKNOWN_PARAMETER",
        "MISSING_PARAMETER",
    ]
    assert store(known, orders(amount=1)).is_new


def test_a_version_that_is_stored_already_is_not_refused_because_the_other_changed(
    known: Transaction,
) -> None:
    store(known, charge("amount"))
    store(known, orders(amount=1))
    store(known, charge("total"))
    assert not store(known, orders(amount=1)).is_new
    with pytest.raises(InvalidSpec, match="has no input 'amount'"):
        store(known, orders(amount=2))
    # A version that a step names stays what it was.
    assert store(known, orders({"id": "charge", "version": 1}, amount=2)).is_new
    with pytest.raises(InvalidSpec, match="has no input 'total'"):
        store(known, orders({"id": "charge", "version": 1}, total=2))


def test_pipelines_that_are_stored_together_are_compared_as_they_will_be(known: Transaction) -> None:
    store(known, charge("amount"))
    store(known, orders(amount=1))
    both = (orders(total=1), charge("total"))
    assert store(known, both[0], *both).is_new
    assert store(known, both[1], *both).is_new
    with pytest.raises(InvalidSpec, match="has no input 'amount'"):
        store(known, orders(amount=3), *both)


def test_a_pipeline_that_runs_itself_is_compared_with_itself(known: Transaction) -> None:
    again = {"id": "again", "pipeline": "charge", "params": {"n": 1}}
    assert store(known, charge("n", steps=[again])).is_new
    with pytest.raises(InvalidSpec, match="has no input 'n'"):
        store(known, charge("m", steps=[again]))


def test_a_pipeline_that_is_not_stored_is_a_warning_alone(known: Transaction) -> None:
    assert store(known, orders("chrage", x=1)).is_new
    [message] = unknown(known, orders("chrage", x=1))
    assert message.endswith("runs pipeline 'chrage', which is not stored")
    store(known, charge("amount"))
    [message] = unknown(known, orders("chrage", x=1))
    assert message.endswith("did you mean 'charge'?")
    assert unknown(known, orders(amount=1)) == []
    [message] = unknown(known, orders({"id": "charge", "version": 2}))
    assert message.endswith("of which version 2 is not stored")


def test_a_pipeline_of_another_tenant_is_unknown(known: Transaction) -> None:
    register(known, "another-tenant", "a")
    store(known, charge("amount"), tenant="another-tenant")
    assert pipelines.children_of(known, TENANT, orders(amount=1)) == {}
    assert pipelines.children_of(known, "another-tenant", orders(amount=1)).keys() == {
        ChildPipeline("charge")
    }


def test_a_pipeline_that_only_a_later_build_reads_keeps_nobody_from_storing_what_runs_it(
    known: Transaction,
) -> None:
    """Workers of two builds side by side: the older one starts again, and stores its own pipelines."""
    store(known, charge("amount"))
    known.execute(LATER_VERSION, {"tenant": TENANT})
    assert store(known, orders(amount=1)).is_new
    assert unknown(known, orders(amount=1)) == []
