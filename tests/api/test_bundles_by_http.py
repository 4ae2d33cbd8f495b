"""Bundles over HTTP: installed by upload, listed, revoked; keys; pipelines that have to be signed."""

from __future__ import annotations

import hashlib
import io
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from support.bundles import a_bundle, id_of, key_of, pipeline_document, task_entry

from pipeweave.bundles.bundle import Bundle
from pipeweave.errors import Unavailable
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.objects import keepers
from pipeweave.orchestrator.security.access_tokens import ADMIN, READ, WRITE

if TYPE_CHECKING:
    from conftest import Api, Tokens
    from werkzeug.test import TestResponse

MINE, OTHER = key_of(11), key_of(12)
_names = count(1)


@pytest.fixture
def mine(api: Api, tokens: Tokens) -> Api:
    """An administrator of a tenant that no other test has bundles in."""
    tenant = f"bundlers-{next(_names)}"
    return replace(api, token=tokens.make(ADMIN, tenants=(tenant,)), tenant=tenant)


def pem(key: Ed25519PrivateKey) -> str:
    return (
        key.public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        .decode()
    )


def trust(api: Api, key: Ed25519PrivateKey, name: str = "releases") -> None:
    answer = api.post("/api/bundle-keys", {"name": name, "publicKey": pem(key)})
    assert (answer.status_code, answer.json["id"]) == (201, id_of(key)), answer.json


def send(api: Api, content: bytes, query: str = "") -> TestResponse:
    form = {"file": (io.BytesIO(content), "shop.pwb")}
    return api.http.post(f"/api/bundles{query}", data=form, headers=api.headers)


def install(api: Api, bundle: Bundle, query: str = "") -> TestResponse:
    return send(api, bundle.to_bytes(), query)


def path_of(bundle: Bundle) -> str:
    """Where the file of a bundle is stored."""
    digest = hashlib.sha256(bundle.to_bytes()).hexdigest()
    return f"artifacts/sha256/{digest[:2]}/{digest}"


def test_a_bundle_is_installed_and_shown(mine: Api) -> None:
    trust(mine, MINE)
    bundle = a_bundle(MINE, pipelines=[pipeline_document()])
    answer = install(mine, bundle)
    assert answer.status_code == 201, answer.json
    assert answer.json["tasks"] == ["charge"]
    assert answer.json["pipelines"] == [{"id": "checkout", "version": 1, "isNew": True}]
    assert install(mine, bundle).status_code == 200
    (listed,) = mine.get("/api/bundles").json["bundles"]
    assert (listed["id"], listed["version"], listed["state"], listed["keyNames"]) == (
        *("shop", "1.0.0", "installed"),
        ["releases"],
    )
    assert mine.get("/api/bundles/shop").json["versions"] == [listed]
    shown = mine.get("/api/pipelines/checkout").json["pipeline"]
    assert shown["bundle"] == {"id": "shop", "version": "1.0.0", "keyIds": [id_of(MINE)]}
    assert mine.get("/api/tasks/charge").json["task"]["serviceId"] == "bundles"


def test_what_is_refused_has_a_code_and_leaves_nothing(mine: Api, deployment: Deployment) -> None:
    assert install(mine, a_bundle(MINE)).json["code"] == "BUNDLE_KEY_UNKNOWN"
    trust(mine, MINE)
    content = a_bundle(MINE).to_bytes()
    refused: dict[str, bytes] = {
        "BUNDLE_SIGNATURE_INVALID": a_bundle().to_bytes(),
        "BUNDLE_INVALID": content[:-1],
        "BUNDLE_KEY_UNKNOWN": a_bundle(OTHER).to_bytes(),
    }
    for code, sent in refused.items():
        answer = send(mine, sent)
        assert (answer.status_code, answer.json["code"]) == (400, code)
    wrong = install(mine, a_bundle(MINE, tasks=[task_entry(timeout=-1)]))
    assert (wrong.json["code"], wrong.json["errors"][0]["field"]) == ("BUNDLE_INVALID", "tasks[0].timeout")
    unknown = install(mine, a_bundle(MINE, pipelines=[pipeline_document(task="nobody")]))
    assert unknown.json["code"] == "INVALID_SPEC"
    assert mine.get("/api/bundles").json["bundles"] == []


def test_an_older_version_is_refused_unless_it_is_meant(mine: Api) -> None:
    trust(mine, MINE)
    assert install(mine, a_bundle(MINE, version="2")).status_code == 201
    refused = install(mine, a_bundle(MINE, version="1"))
    assert (refused.status_code, refused.json["code"]) == (409, "BUNDLE_DOWNGRADE")
    assert install(mine, a_bundle(MINE, version="1"), "?allowDowngrade=true").json["replaced"] == "2"


def test_a_revoked_key_and_a_revoked_bundle_count_no_more(mine: Api) -> None:
    trust(mine, MINE)
    install(mine, a_bundle(MINE))
    revoked = mine.post("/api/bundle-keys/releases/revoke", {"reason": "lost"})
    assert revoked.json == {"id": id_of(MINE), "parkedBundles": ["shop"]}
    assert install(mine, a_bundle(MINE)).json["code"] == "BUNDLE_KEY_REVOKED"
    trust(mine, OTHER, "others")
    assert install(mine, a_bundle(OTHER)).status_code == 201
    done = mine.post("/api/bundles/shop/revoke", {"reason": "charges twice"})
    assert done.json == {"id": "shop", "version": "1.0.0", "parkedTasks": ["charge"]}
    again = install(mine, a_bundle(OTHER))
    assert (again.status_code, again.json["code"]) == (409, "BUNDLE_VERSION_TAKEN")
    assert mine.post("/api/bundles/shpo/revoke").json["hint"] == "did you mean 'shop'?"


def test_the_audit_says_who_installed_and_revoked_what(mine: Api) -> None:
    trust(mine, MINE)
    install(mine, a_bundle(MINE))
    mine.post("/api/bundles/shop/revoke", {"reason": "charges twice"})
    mine.post(f"/api/bundle-keys/{id_of(MINE)}/revoke")
    entries = mine.get("/api/audit").json["entries"]
    assert [(each["verb"], each["object"]) for each in entries] == [
        ("bundles.revoke_key", id_of(MINE)),
        ("bundles.revoke_bundle", "shop"),
        ("bundles.install", "shop/1.0.0"),
        ("bundles.add_key", "releases"),
    ]
    _, revoked, installed, added = entries
    assert revoked["reason"] == "charges twice"
    assert revoked["before"]["1.0.0"]["state"] == "installed"
    assert installed["after"]["1.0.0"]["keyIds"] == [id_of(MINE)]
    assert added["after"] == {id_of(MINE): {"name": "releases", "revokedAt": None}}


def test_tenants_see_no_bundle_and_no_key_of_each_other(mine: Api, api: Api, tokens: Tokens) -> None:
    trust(mine, MINE)
    install(mine, a_bundle(MINE))
    other = replace(api, token=tokens.make(ADMIN, tenants=("bundlers-other",)), tenant="bundlers-other")
    assert install(other, a_bundle(MINE)).json["code"] == "BUNDLE_KEY_UNKNOWN"
    assert other.get("/api/bundles").json["bundles"] == []
    assert other.get("/api/bundle-keys").json["keys"] == []
    assert other.get("/api/bundles/shop").status_code == 404
    assert other.post("/api/bundles/shop/revoke").status_code == 404
    assert other.post(f"/api/bundle-keys/{id_of(MINE)}/revoke").status_code == 404
    assert other.get(f"/api/storage/{path_of(a_bundle(MINE))}", raw="true").status_code == 404


def test_keys_take_an_administrator_and_bundles_a_writer(mine: Api, tokens: Tokens) -> None:
    writer = replace(mine, token=tokens.make(WRITE, tenants=(mine.tenant,)))
    reader = replace(mine, token=tokens.make(READ, tenants=(mine.tenant,)))
    assert writer.post("/api/bundle-keys", {"name": "mine", "publicKey": pem(MINE)}).status_code == 403
    trust(mine, MINE)
    assert writer.post("/api/bundle-keys/releases/revoke").status_code == 403
    assert install(reader, a_bundle(MINE)).status_code == 403
    assert install(writer, a_bundle(MINE)).status_code == 201
    assert reader.post("/api/bundles/shop/revoke").status_code == 403
    assert len(reader.get("/api/bundles").json["bundles"]) == 1


def test_a_text_that_is_no_key_is_refused_with_its_field(mine: Api) -> None:
    for text in ("", "ssh-ed25519 AAAA", pem(MINE)[:-40]):
        answer = mine.post("/api/bundle-keys", {"name": "mine", "publicKey": text})
        assert (answer.status_code, answer.json["errors"][0]["field"]) == (400, "publicKey")


def test_a_tenant_that_takes_only_signed_pipelines_refuses_others(mine: Api) -> None:
    trust(mine, MINE)
    install(mine, a_bundle(MINE))
    answer = mine.put(f"/api/tenants/{mine.tenant}/signed-pipelines", {"onlySigned": True})
    assert answer.json["takesOnlySigned"] is True
    refused = mine.put("/api/pipelines/checkout", pipeline_document())
    assert (refused.status_code, refused.json["code"]) == (409, "PIPELINE_UNSIGNED")
    bundle = a_bundle(MINE, version="1.1", pipelines=[pipeline_document()])
    assert install(mine, bundle).json["pipelines"][0]["isNew"] is True
    assert mine.put("/api/pipelines/checkout", pipeline_document()).status_code == 200, "it is stored already"
    mine.put(f"/api/tenants/{mine.tenant}/signed-pipelines", {"onlySigned": False})
    assert mine.put("/api/pipelines/other", pipeline_document("other")).status_code == 201


def test_the_sweep_keeps_the_file_of_a_bundle_and_takes_one_whose_row_was_never_written(
    mine: Api, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a process that was killed between the upload and the row."""
    trust(mine, MINE)
    install(mine, a_bundle(MINE))

    def die(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    lost_bundle = a_bundle(MINE, version="3")
    with monkeypatch.context() as patched:
        patched.setattr("pipeweave.orchestrator.bundles.installing.install", die)
        with pytest.raises(KeyboardInterrupt):
            install(mine, lost_bundle)
    lost = deployment.values.backends
    paths = {each.path for each in lost.get(lost.default_id).list("artifacts/sha256/")}
    with deployment.database.transaction() as tx:
        alive = keepers.kept(tx, [lost.default_id], paths)
    assert path_of(a_bundle(MINE)) in alive
    assert path_of(lost_bundle) in paths - alive
    assert install(mine, lost_bundle).status_code == 201, "the next try finds it, and writes the row"


def test_a_storage_that_is_away_installs_nothing(
    mine: Api, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust(mine, MINE)

    def away(*_: Any, **__: Any) -> None:
        raise Unavailable("storage cannot be reached")

    with monkeypatch.context() as patched:
        patched.setattr(deployment.values, "keep_bytes", away)
        answer = install(mine, a_bundle(MINE))
    assert (answer.status_code, answer.json["code"]) == (503, "UNAVAILABLE")
    assert mine.get("/api/bundles").json["bundles"] == []
    assert install(mine, a_bundle(MINE)).status_code == 201
