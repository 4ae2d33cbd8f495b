"""The page of a tenant: what is used beside what is allowed, and what operators do there."""

from __future__ import annotations

import itertools
from dataclasses import replace
from html import unescape
from typing import TYPE_CHECKING

import pytest

from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.registry import tenants
from pipeweave.orchestrator.retention import tenant_deletion
from pipeweave.orchestrator.security.access_tokens import ADMIN

if TYPE_CHECKING:
    from conftest import Api, Tokens

_names = itertools.count(1)


@pytest.fixture
def shop(deployment: Deployment) -> str:
    """The name of a tenant of this test."""
    name = f"tenant-pages-{next(_names)}"
    with deployment.database.transaction() as tx:
        tenants.ensure_tenant(tx, name)
    return name


@pytest.fixture
def owner(api: Api, tokens: Tokens) -> Api:
    """An administrator of every tenant."""
    return replace(api, token=tokens.make(ADMIN, tenants=("*",)))


def page(api: Api, path: str, status: int = 200) -> str:
    answer = api.get(f"/ui/{api.tenant}{path}")
    assert answer.status_code == status
    return unescape(answer.get_data(as_text=True))


def do(api: Api, verb: str, status: int = 303, **form: str) -> str:
    answer = api.http.post(f"/ui/{api.tenant}/do/{verb}", data=form, headers=api.headers)
    assert answer.status_code == status
    return unescape(answer.get_data(as_text=True))


def test_quotas_begin_as_they_are_and_stand_beside_what_is_used(owner: Api, shop: str) -> None:
    owner.put(f"/api/tenants/{shop}/limits", {"runsPerDay": 400, "requestRate": "600/m"})
    asked = page(owner, f"/do/tenants.put_limits?id={shop}")
    assert 'value="400"' in asked and 'value="600/m"' in asked
    assert f"pipeweave tenant limits {shop} --runs-per-day 400 --open-task-runs none" in asked
    quotas = {"runsPerDay": "500", "requestRate": "", "storedBytes": "2048", "weight": "3"}
    do(owner, "tenants.put_limits", id=shop, **quotas)
    stored = owner.get(f"/api/tenants/{shop}/limits").json
    assert (stored["runsPerDay"], stored["requestRate"], stored["weight"]) == (500, None, 3)
    shown = page(owner, f"/tenants/{shop}")
    assert "2.0 KiB" in shown and 'max="500"' in shown and ">3 <" in shown


def test_a_quota_that_is_wrong_is_said_beside_its_field(owner: Api, shop: str) -> None:
    refused = do(owner, "tenants.put_limits", 400, id=shop, runsPerDay="-1", weight="3")
    assert 'id="f-runsPerDay-wrong"' in refused
    assert 'id="f-weight-wrong"' in do(owner, "tenants.put_limits", 400, id=shop, weight="")


def test_a_tenant_is_disabled_with_a_reason_and_enabled_again(owner: Api, shop: str, tokens: Tokens) -> None:
    asked = page(owner, f"/do/tenants.disable?id={shop}")
    assert "nothing new of it begins" in asked and f"pipeweave tenant disable {shop}" in asked
    do(owner, "tenants.disable", id=shop, reason="unpaid since May")
    assert "«unpaid since May»" in page(owner, f"/tenants/{shop}")
    of_both = replace(owner, token=tokens.make(ADMIN, tenants=(owner.tenant, shop)))
    assert "disabled" in page(of_both, "/access?tab=tenants")
    do(owner, "tenants.enable", id=shop)
    assert owner.get(f"/api/tenants/{shop}").json["disabledAt"] is None


def test_a_tenant_is_deleted_only_by_whoever_types_its_name(
    owner: Api, shop: str, deployment: Deployment
) -> None:
    asked = page(owner, f"/do/tenants.delete?id={shop}")
    assert f"Type <strong>{shop}</strong> to confirm" in asked
    for typed in ("", "1", shop[:-1]):
        assert f"type {shop}, the name" in do(owner, "tenants.delete", 400, id=shop, typed=typed)
    assert owner.get(f"/api/tenants/{shop}").json["disabledAt"] is None
    do(owner, "tenants.delete", id=shop, typed=shop)
    assert "being deleted since" in page(owner, f"/tenants/{shop}")
    assert "do/tenants.delete" not in page(owner, f"/tenants/{shop}")
    tenant_deletion.run_once(deployment.database)
    assert "was deleted" in page(owner, f"/tenants/{shop}")


def test_a_tenants_own_administrator_sees_its_quotas_and_no_button_of_operators(
    api: Api, tokens: Tokens, shop: str
) -> None:
    own = replace(api, token=tokens.make(ADMIN, tenants=(shop,)), tenant=shop)
    shown = page(own, f"/tenants/{shop}")
    assert "do/tenants.put_tenant" in shown
    for verb in ("put_limits", "disable", "delete"):
        assert f"do/tenants.{verb}" not in shown
    do(own, "tenants.delete", 403, id=shop, typed=shop)
    page(own, "/tenants/somebody-else", 404)
