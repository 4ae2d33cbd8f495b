"""The pages of bundles: what they show, and what may be done there, by whom."""

from __future__ import annotations

import io
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from support.bundles import a_bundle, id_of, key_of, pipeline_document, task_entry
from support.factories import a_worker

from pipeweave.bundles.bundle import Bundle
from pipeweave.orchestrator.bundles import SERVICE
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.registry.registration import TaskRegistration
from pipeweave.orchestrator.security.access_tokens import ADMIN, READ

if TYPE_CHECKING:
    from conftest import Api, Tokens

MINE, OTHER = key_of(21), key_of(22)
_names = count(1)


@pytest.fixture
def mine(api: Api, tokens: Tokens) -> Api:
    """An administrator of a tenant that no other test has bundles in."""
    tenant = f"bundle-pages-{next(_names)}"
    return replace(api, token=tokens.make(ADMIN, tenants=(tenant,)), tenant=tenant)


def pem(key: Ed25519PrivateKey) -> str:
    formats = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(*formats).decode()


def trust(api: Api, key: Ed25519PrivateKey, name: str) -> None:
    assert api.post("/api/bundle-keys", {"name": name, "publicKey": pem(key)}).status_code == 201


def install(api: Api, bundle: Bundle) -> None:
    form = {"file": (io.BytesIO(bundle.to_bytes()), "shop.pwb")}
    answer = api.http.post("/api/bundles", data=form, headers=api.headers)
    assert answer.status_code == 201, answer.json


def page(api: Api, path: str, status: int = 200) -> str:
    answer = api.get(f"/ui/{api.tenant}{path}")
    assert answer.status_code == status
    return answer.get_data(as_text=True)


def do(api: Api, verb: str, status: int = 303, **form: str) -> str:
    answer = api.http.post(f"/ui/{api.tenant}/do/{verb}", data=form, headers=api.headers)
    assert answer.status_code == status
    return answer.get_data(as_text=True)


def test_a_tenant_without_bundles_is_told_how_to_make_one(mine: Api) -> None:
    assert "pipeweave bundle build shop" in page(mine, "/bundles")
    assert "pipeweave bundle keygen" in page(mine, "/bundles?tab=keys")
    assert f"/ui/{mine.tenant}/bundles" in page(mine, "/pipelines")
    assert "pipeweave bundle install" in page(mine, "/bundles/nowhere", 404)


def test_a_bundle_is_shown_with_what_it_brings_who_signed_it_and_who_has_loaded_it(
    mine: Api, deployment: Deployment
) -> None:
    trust(mine, MINE, "releases")
    install(mine, a_bundle(MINE, OTHER, pipelines=[pipeline_document()]))
    assert "No worker has loaded it" in page(mine, "/bundles/shop")
    entry = task_entry()["registration"]
    with deployment.database.transaction() as tx:
        task = TaskRegistration(entry["id"], entry["codeHash"])
        loaded = a_worker(tx, mine.tenant, task, service=SERVICE, name="boxes")
        old = TaskRegistration(entry["id"], "0" * 64)
        a_worker(tx, mine.tenant, old, service=SERVICE, name="outdated")
    shown = page(mine, "/bundles/shop")
    for text in ("releases", id_of(OTHER)[:12], "does not know", "/tasks/charge", "/pipelines/checkout"):
        assert text in shown, text
    assert f"/workers/{loaded}" in shown and "outdated" not in shown and "1 of 1 tasks" in shown
    listed = page(mine, "/bundles")
    assert "/bundles/shop" in listed and "releases" in listed


def test_a_version_is_revoked_after_the_question_says_what_waits(mine: Api) -> None:
    trust(mine, MINE, "releases")
    install(mine, a_bundle(MINE, version="1"))
    install(mine, a_bundle(MINE, version="2"))
    older = page(mine, "/do/bundles.revoke_bundle?id=shop&version=1")
    assert "version 1 counts no more" in older and "its task waits" not in older
    asked = page(mine, "/do/bundles.revoke_bundle?id=shop&version=2")
    assert "its task waits" in asked and "pipeweave bundle revoke shop --version 2" in asked
    do(mine, "bundles.revoke_bundle", id="shop", version="2", reason="charges twice")
    states = {each["version"]: each["state"] for each in mine.get("/api/bundles/shop").json["versions"]}
    assert states == {"1": "superseded", "2": "revoked"}
    shown = page(mine, "/bundles/shop")
    assert "charges twice" in shown and "none counts" in page(mine, "/bundles/shop?version=1")


def test_keys_are_trusted_and_revoked_and_the_question_names_the_bundles_that_stop(mine: Api) -> None:
    wrong = do(mine, "bundles.add_key", 400, name="releases", publicKey="no key")
    assert "PEM" in wrong and "no key" in wrong
    do(mine, "bundles.add_key", name="releases", publicKey=pem(MINE))
    do(mine, "bundles.add_key", name="others", publicKey=pem(OTHER))
    install(mine, a_bundle(MINE))
    install(mine, a_bundle(MINE, OTHER, id="books", tasks=[task_entry("lend")]))
    asked = page(mine, f"/do/bundles.revoke_key?id={id_of(MINE)}")
    assert "the tasks of shop wait" in asked and "books" not in asked
    assert "no bundle waits" in page(mine, f"/do/bundles.revoke_key?id={id_of(OTHER)}")
    do(mine, "bundles.revoke_key", id=id_of(MINE), reason="lost")
    assert "lost" in page(mine, "/bundles?tab=keys") and "untrusted" in page(mine, "/bundles")


def test_a_tenant_is_made_to_take_only_signed_pipelines_and_all_again(mine: Api) -> None:
    trust(mine, MINE, "releases")
    install(mine, a_bundle(MINE))
    assert "from code and documents, too" in page(mine, "/bundles?tab=keys")
    do(mine, "bundles.put_only_signed", id=mine.tenant)
    assert "from signed bundles alone" in page(mine, "/bundles?tab=keys")
    do(mine, "bundles.put_only_signed:all", id=mine.tenant)
    assert mine.get(f"/api/tenants/{mine.tenant}").json["takesOnlySigned"] is False


def test_who_may_only_read_sees_no_verb_and_nobody_sees_another_tenants_bundles(
    mine: Api, tokens: Tokens
) -> None:
    trust(mine, MINE, "releases")
    install(mine, a_bundle(MINE))
    assert "do/bundles." in page(mine, "/bundles") and "do/bundles." in page(mine, "/bundles?tab=keys")
    reader = replace(mine, token=tokens.make(READ, tenants=(mine.tenant,)))
    for path in ("/bundles", "/bundles?tab=keys", "/bundles/shop"):
        assert "do/bundles." not in page(reader, path)
    do(reader, "bundles.revoke_bundle", 403, id="shop")
    assert mine.get("/api/bundles/shop").json["versions"][0]["state"] == "installed"
    stranger = replace(mine, token=tokens.make(ADMIN, tenants=("elsewhere",)), tenant="elsewhere")
    page(stranger, "/bundles/shop", 404)
    assert id_of(MINE) not in page(stranger, "/bundles?tab=keys")


def test_the_versions_of_a_pipeline_say_where_each_came_from_and_who_promoted_which(mine: Api) -> None:
    trust(mine, MINE, "releases")
    install(mine, a_bundle(MINE, pipelines=[pipeline_document()]))
    steps = [{"id": "pay", "task": "charge"}, {"id": "again", "task": "charge", "needs": ["pay"]}]
    assert mine.put("/api/pipelines/checkout", {"steps": steps}).status_code == 201
    mine.post("/api/pipelines/checkout/promote", {"version": 1})
    second, first = mine.get("/api/pipelines/checkout/versions").json["versions"]
    assert first["bundle"] == {"id": "shop", "version": "1.0.0", "keyIds": [id_of(MINE)]}
    assert (second["bundle"], second["source"]) == (None, "api")
    assert (first["promotedBy"], first["isPrevious"]) == ("test", False)
    assert (second["promotedAt"], second["isPrevious"]) == (None, True)
    shown = page(mine, "/pipelines/checkout?tab=versions")
    assert "/bundles/shop?version=1.0.0" in shown and "a document over HTTP" in shown
    assert "by test" in shown and "was current before" in shown
