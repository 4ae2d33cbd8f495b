"""Endpoints of bundles: install, show and revoke them, and the keys that a tenant trusts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pipeweave.api.contract.bundles import (
    BundleKeyRequest,
    InstallQuery,
    RevokeBundleRequest,
    RevokeKeyRequest,
    SignedPipelinesRequest,
)
from pipeweave.api.http import Answer, Call, FormFile, PathId, ReceivedFile, Routes
from pipeweave.api.routes.uploads import receiving
from pipeweave.bundles import bundle as bundle_files
from pipeweave.bundles.archive import MAX_BUNDLE_BYTES
from pipeweave.bundles.bundle import Bundle, verified_by
from pipeweave.bundles.signing_keys import parse_public
from pipeweave.errors import (
    BundleDowngrade,
    BundleKeyRevoked,
    BundleKeyUnknown,
    BundleSignatureInvalid,
    BundleVersionTaken,
    Conflict,
    InvalidBundle,
    InvalidSpec,
    LimitExceeded,
    NotFound,
    PayloadTooLarge,
    TaskOwnedElsewhere,
    Unavailable,
)
from pipeweave.orchestrator.bundles import bundle_keys, installing, revoking
from pipeweave.orchestrator.documents.access import Tenant
from pipeweave.orchestrator.documents.bundles import (
    BundleKey,
    BundleKeyList,
    BundleList,
    BundleVersions,
    InstalledAnswer,
    RevokedBundleKey,
    RevokedBundleVersion,
)
from pipeweave.orchestrator.reading import bundle_list, tenant_list
from pipeweave.orchestrator.registry import tenants
from pipeweave.orchestrator.security import ADMIN, WRITE
from pipeweave.orchestrator.starts.schedules import firing
from pipeweave.storage.base import BINARY

routes = Routes("bundles")
BUNDLE = {"id": PathId(None, "The bundle's id.")}
KEY = {"id": PathId(None, "The key's id, or its name.")}


@routes.add("GET", "/api/bundles", "List the bundles", answer=BundleList)
def list_bundles(call: Call) -> dict[str, Any]:
    """The bundles of the tenant by id, each in the version that counts, else in its newest: 500 at most."""
    with call.reading() as tx:
        return {"bundles": bundle_list.bundles(tx, call.tenant)}


@routes.add(
    "POST",
    "/api/bundles",
    "Install a bundle",
    scopes=(WRITE,),
    takes_file=True,
    query=InstallQuery,
    answers={
        200: (InstalledAnswer, "It was installed before."),
        201: (InstalledAnswer, "It is installed now."),
    },
    errors=(
        *(InvalidBundle, BundleSignatureInvalid, BundleKeyUnknown, BundleKeyRevoked, BundleDowngrade),
        *(BundleVersionTaken, TaskOwnedElsewhere, InvalidSpec, LimitExceeded, Unavailable),
    ),
)
def install(call: Call, form: FormFile, query: InstallQuery) -> Answer:
    """Install the bundle in the field `file` of a form, of up to 50 MiB: workers with `--bundles` load it
    within seconds, and its pipelines are stored.

    It must be signed with a key that the tenant trusts, and be newer than every version of it that was
    installed.
    """
    with receiving():
        content = _content(form.receive())
        new = _new(call, content)
    specs = {each.id for each in new.specs}
    firing.run_due(call.deployment.database, call.deployment.values, call.tenant, specs)
    # The form does not name the bundle; its row of the audit does.
    note = call.note and replace(call.note, object=f"{new.bundle.manifest.id}/{new.bundle.manifest.version}")
    done = replace(call, note=note).change(
        lambda tx: installing.install(tx, call.tenant, new, allow_downgrade=query.allow_downgrade)
    )
    return Answer(_shown(new.bundle, done), 201 if done.is_new else 200)


def _content(received: ReceivedFile) -> bytes:
    content = received.content.read(MAX_BUNDLE_BYTES + 1)
    if len(content) > MAX_BUNDLE_BYTES:
        raise PayloadTooLarge(f"a bundle may have at most {MAX_BUNDLE_BYTES} bytes", limit=MAX_BUNDLE_BYTES)
    return content


def _new(call: Call, content: bytes) -> installing.NewBundle:
    """Check a bundle, then store its file: nothing of one that is refused is kept."""
    bundle = bundle_files.read(content)
    keys = call.read_first(lambda tx: bundle_keys.keys_of(tx, call.tenant))
    verified_by(bundle, keys)
    settings, values = call.deployment.settings, call.deployment.values
    registration = installing.registration_of(
        bundle.manifest, idempotency_ttl=settings.idempotency_ttl_seconds
    )
    specs = bundle.manifest.specs()
    place = values.keep_bytes(content, values.backends.choose(call.tenant, None), BINARY)
    return installing.NewBundle(bundle, len(content), str(place), registration, specs, by=call.token_name)


def _shown(bundle: Bundle, done: installing.Installed) -> dict[str, Any]:
    return {
        "id": done.id,
        "version": done.version,
        "isNew": done.is_new,
        "keyIds": list(done.key_ids),
        "replaced": done.replaced,
        "tasks": bundle.manifest.task_ids,
        "pipelines": [
            {"id": each.pipeline_id, "version": each.version, "isNew": each.is_new} for each in done.pipelines
        ],
    }


@routes.add(
    "GET", "/api/bundles/{id}", "Show a bundle", ids=BUNDLE, answer=BundleVersions, errors=(NotFound,)
)
def get_bundle(call: Call, id: str) -> dict[str, Any]:
    """The versions of a bundle, newest first: 200 at most; and which workers have loaded the one that
    counts.
    """
    with call.reading() as tx:
        return {
            "versions": bundle_list.bundle_versions(tx, call.tenant, id),
            "workers": bundle_list.loading_workers(tx, call.tenant, id),
        }


@routes.add(
    "POST",
    "/api/bundles/{id}/revoke",
    "Revoke a bundle",
    scopes=(WRITE,),
    ids=BUNDLE,
    body=RevokeBundleRequest,
    is_body_optional=True,
    answer=RevokedBundleVersion,
    errors=(NotFound,),
    example={"version": "1.4.0", "reason": "charges twice"},
)
def revoke_bundle(call: Call, id: str, body: RevokeBundleRequest) -> dict[str, Any]:
    """Let a version of a bundle count no more, for good. No older version takes its place: its tasks wait
    until another one is installed. Attempts that run end as they do.
    """
    done = call.change(lambda tx: revoking.revoke(tx, call.tenant, id, body.version, body.reason))
    return {"id": done.id, "version": done.version, "parkedTasks": list(done.parked)}


@routes.add("GET", "/api/bundle-keys", "List the keys of bundles", answer=BundleKeyList)
def list_keys(call: Call) -> dict[str, Any]:
    """The keys that the tenant trusts, then those that it has revoked: 100 at most."""
    with call.reading() as tx:
        return {"keys": bundle_list.bundle_keys(tx, call.tenant)}


@routes.add(
    "POST",
    "/api/bundle-keys",
    "Trust a key",
    scopes=(ADMIN,),
    body=BundleKeyRequest,
    answers={201: (BundleKey, "The key.")},
    errors=(Conflict, BundleKeyRevoked, LimitExceeded),
    example={
        "name": "releases",
        "publicKey": "-----BEGIN PUBLIC KEY-----\n"
        "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n",
    },
)
def add_key(call: Call, body: BundleKeyRequest) -> Answer:
    """Trust bundles that this key has signed. Adding a key again changes nothing."""
    public_key = parse_public(body.public_key)
    key_id = call.change(
        lambda tx: bundle_keys.add(tx, call.tenant, body.name, public_key, by=call.token_name)
    )
    with call.reading() as tx:
        shown = next(each for each in bundle_list.bundle_keys(tx, call.tenant) if each["id"] == key_id)
    return Answer(shown, 201)


@routes.add(
    "POST",
    "/api/bundle-keys/{id}/revoke",
    "Revoke a key",
    scopes=(ADMIN,),
    ids=KEY,
    body=RevokeKeyRequest,
    is_body_optional=True,
    answer=RevokedBundleKey,
    errors=(NotFound,),
    example={"reason": "the laptop was stolen"},
)
def revoke_key(call: Call, id: str, body: RevokeKeyRequest) -> dict[str, Any]:
    """Trust a key no more, for good. The tasks of bundles that no other trusted key has signed wait until
    they are installed with another signature. Attempts that run end as they do.
    """
    done = call.change(lambda tx: bundle_keys.revoke(tx, call.tenant, id, body.reason))
    return {"id": done.key_id, "parkedBundles": list(done.parked)}


@routes.add(
    "PUT",
    "/api/tenants/{id}/signed-pipelines",
    "Take only signed pipelines",
    scopes=(ADMIN,),
    is_about_caller=True,
    ids={"id": PathId(None, "The tenant.")},
    body=SignedPipelinesRequest,
    answer=Tenant,
    errors=(NotFound,),
    example={"onlySigned": True},
)
def put_only_signed(call: Call, id: str, body: SignedPipelinesRequest) -> dict[str, Any]:
    """Say whether the tenant takes only pipelines that signed bundles bring. New versions from documents and
    from code are refused then; versions that are stored stay. Answers 404 if the request's token may not
    enter it.
    """
    if not call.access.may_enter(id):
        raise NotFound(f"tenant {id!r} not found")
    call.change(lambda tx: tenants.set_only_signed(tx, id, is_so=body.only_signed))
    with call.reading() as tx:
        return tenant_list.tenant(tx, id)
