"""Bundles on a real PostgreSQL: installed, replaced, refused, revoked, and two at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from support.bundles import a_bundle, id_of, key_of, pipeline_document, task_entry
from support.factories import register

from pipeweave.bundles import signing_keys
from pipeweave.bundles.bundle import Bundle
from pipeweave.errors import (
    BundleDowngrade,
    BundleKeyRevoked,
    BundleKeyUnknown,
    BundleVersionTaken,
    Conflict,
    InvalidBundle,
    NotFound,
    PipelineUnsigned,
    TaskOwnedElsewhere,
)
from pipeweave.orchestrator.bundles import bundle_keys, installed, installing, revoking
from pipeweave.orchestrator.bundles.installing import Installed, NewBundle
from pipeweave.orchestrator.reading import bundle_list
from pipeweave.orchestrator.registry import pipelines, tenants
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.spec import parse_spec

MINE, OTHER = key_of(1), key_of(2)
_names = count(1)


@pytest.fixture
def tenant() -> str:
    return f"bundles-{next(_names)}"


def trust(tx: Transaction, tenant: str, *keys: Ed25519PrivateKey) -> None:
    for at, key in enumerate(keys):
        bundle_keys.add(tx, tenant, f"key {at} {id_of(key)[:4]}", signing_keys.public_bytes(key), by="test")


def new(bundle: Bundle) -> NewBundle:
    content = bundle.to_bytes()
    registration = installing.registration_of(bundle.manifest)
    return NewBundle(
        bundle, len(content), f"local//{len(content)}", registration, bundle.manifest.specs(), "test"
    )


def install(tx: Transaction, tenant: str, bundle: Bundle, **options: Any) -> Installed:
    return installing.install(tx, tenant, new(bundle), **options)


def states(tx: Transaction, tenant: str, bundle_id: str = "shop") -> dict[str, str]:
    return {each["version"]: each["state"] for each in bundle_list.bundle_versions(tx, tenant, bundle_id)}


def in_force(tx: Transaction, tenant: str) -> list[tuple[str, str]]:
    return [(each.id, each.version) for each in installed.installed(tx, tenant)]


def test_an_installed_bundle_brings_its_tasks_and_its_pipelines(tx: Transaction, tenant: str) -> None:
    trust(tx, tenant, MINE)
    done = install(tx, tenant, a_bundle(MINE, pipelines=[pipeline_document()]))
    assert (done.is_new, done.key_ids, done.replaced) == (True, (id_of(MINE),), None)
    assert [(each.pipeline_id, each.version) for each in done.pipelines] == [("checkout", 1)]
    assert in_force(tx, tenant) == [("shop", "1.0.0")]
    origin = bundle_list.origin_of(tx, tenant, "checkout", 1)
    assert origin == {"id": "shop", "version": "1.0.0", "keyIds": [id_of(MINE)]}


def test_installing_the_same_again_changes_nothing(tx: Transaction, tenant: str) -> None:
    trust(tx, tenant, MINE)
    bundle = a_bundle(MINE, pipelines=[pipeline_document()])
    install(tx, tenant, bundle)
    again = install(tx, tenant, bundle)
    assert not again.is_new
    assert not again.pipelines[0].is_new


def test_the_newest_version_counts_and_an_older_one_is_refused_unless_it_is_meant(
    tx: Transaction, tenant: str
) -> None:
    trust(tx, tenant, MINE)
    for version, replaced in (("1.9", None), ("1.10", "1.9")):
        assert install(tx, tenant, a_bundle(MINE, version=version)).replaced == replaced
    with pytest.raises(BundleDowngrade, match=r"1\.10"):
        install(tx, tenant, a_bundle(MINE, version="1.9"))
    assert in_force(tx, tenant) == [("shop", "1.10")]
    assert install(tx, tenant, a_bundle(MINE, version="1.9"), allow_downgrade=True).replaced == "1.10"
    assert states(tx, tenant) == {"1.10": "superseded", "1.9": "installed"}


def test_a_version_never_changes_however_it_is_written(tx: Transaction, tenant: str) -> None:
    trust(tx, tenant, MINE)
    install(tx, tenant, a_bundle(MINE, version="1.4"))
    other = a_bundle(MINE, version="1.4.0", files={"src/tasks.py": b"# other\n"})
    with pytest.raises(BundleVersionTaken, match="another content"):
        install(tx, tenant, other)


def test_a_key_that_is_unknown_revoked_or_of_another_tenant_installs_nothing(
    tx: Transaction, tenant: str
) -> None:
    trust(tx, f"{tenant}-other", MINE)
    trust(tx, tenant, OTHER)
    with pytest.raises(BundleKeyUnknown):
        install(tx, tenant, a_bundle(MINE))
    bundle_keys.revoke(tx, tenant, id_of(OTHER))
    with pytest.raises(BundleKeyRevoked):
        install(tx, tenant, a_bundle(OTHER))
    assert in_force(tx, tenant) == []


def test_one_trusted_key_of_two_is_enough_until_it_is_revoked(tx: Transaction, tenant: str) -> None:
    trust(tx, tenant, MINE, OTHER)
    install(tx, tenant, a_bundle(MINE, OTHER))
    assert bundle_keys.revoke(tx, tenant, id_of(MINE)).parked == ()
    assert in_force(tx, tenant) == [("shop", "1.0.0")]
    assert bundle_keys.revoke(tx, tenant, id_of(OTHER), "stolen").parked == ("shop",)
    assert in_force(tx, tenant) == []
    assert states(tx, tenant) == {"1.0.0": "untrusted"}
    trust(tx, tenant, key_of(3))
    done = install(tx, tenant, a_bundle(key_of(3)))
    assert (done.is_new, in_force(tx, tenant)) == (True, [("shop", "1.0.0")])


def test_a_revoked_version_does_not_come_back_and_no_older_one_takes_its_place(
    tx: Transaction, tenant: str
) -> None:
    trust(tx, tenant, MINE)
    for version in ("1.0", "1.1"):
        install(tx, tenant, a_bundle(MINE, version=version))
    done = revoking.revoke(tx, tenant, "shop", reason="charges twice")
    assert (done.version, done.parked) == ("1.1", ("charge",))
    assert in_force(tx, tenant) == []
    with pytest.raises(BundleVersionTaken, match="charges twice"):
        install(tx, tenant, a_bundle(MINE, version="1.1"), allow_downgrade=True)
    with pytest.raises(BundleDowngrade):
        install(tx, tenant, a_bundle(MINE, version="1.0"))
    install(tx, tenant, a_bundle(MINE, version="1.2"))
    assert states(tx, tenant) == {"1.2": "installed", "1.1": "revoked", "1.0": "superseded"}
    with pytest.raises(NotFound):
        revoking.revoke(tx, tenant, "shop", "9.9")
    with pytest.raises(NotFound, match="did you mean"):
        revoking.revoke(tx, tenant, "shpo") and pytest.fail()


def test_revoking_what_does_not_count_parks_nothing(tx: Transaction, tenant: str) -> None:
    trust(tx, tenant, MINE)
    for version in ("1.0", "1.1"):
        install(tx, tenant, a_bundle(MINE, version=version))
    assert revoking.revoke(tx, tenant, "shop", "1.0").parked == ()
    assert in_force(tx, tenant) == [("shop", "1.1")]


def test_a_task_belongs_to_one_bundle_and_to_no_other_service(tx: Transaction, tenant: str) -> None:
    trust(tx, tenant, MINE)
    install(tx, tenant, a_bundle(MINE))
    with pytest.raises(InvalidBundle, match="bundle shop") as refused:
        install(tx, tenant, a_bundle(MINE, id="till", tasks=[task_entry("refund"), task_entry("charge")]))
    assert refused.value.errors[0].field == "tasks[1].registration.id"
    register(tx, tenant, "ship")
    with pytest.raises(TaskOwnedElsewhere):
        install(tx, tenant, a_bundle(MINE, id="post", tasks=[task_entry("ship")]))


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"timeout": -1}, "tasks[0].timeout"),
        ({"queue": "fast"}, "tasks[0].registration.queue"),
        ({"command": "rm"}, "tasks[0].command"),
    ],
)
def test_an_option_that_is_wrong_is_refused_with_its_field(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidBundle) as refused:
        installing.registration_of(a_bundle(tasks=[task_entry(**options)]).manifest)
    assert field in {each.field for each in refused.value.errors}


def test_keys_have_names_of_their_own_and_a_revoked_one_never_comes_back(
    tx: Transaction, tenant: str
) -> None:
    public = signing_keys.public_bytes(MINE)
    key_id = bundle_keys.add(tx, tenant, "releases", public, by="ada")
    assert bundle_keys.add(tx, tenant, "releases", public, by="bob") == key_id
    with pytest.raises(Conflict):
        bundle_keys.add(tx, tenant, "others", public, by="bob")
    with pytest.raises(Conflict):
        bundle_keys.add(tx, tenant, "releases", signing_keys.public_bytes(OTHER), by="bob")
    assert bundle_keys.revoke(tx, tenant, "releases", "lost").key_id == key_id
    assert bundle_keys.revoke(tx, tenant, key_id).key_id == key_id
    with pytest.raises(BundleKeyRevoked):
        bundle_keys.add(tx, tenant, "releases", public, by="ada")
    with pytest.raises(NotFound):
        bundle_keys.revoke(tx, f"{tenant}-other", key_id)
    bundle_keys.add(tx, tenant, "releases", signing_keys.public_bytes(OTHER), by="ada")
    shown = [(each["name"], each["revokeReason"]) for each in bundle_list.bundle_keys(tx, tenant)]
    assert shown == [("releases", None), ("releases", "lost")]


def test_a_tenant_may_take_only_signed_pipelines(tx: Transaction, tenant: str) -> None:
    trust(tx, tenant, MINE)
    register(tx, tenant, "ship")
    before = parse_spec(pipeline_document("old", "ship"))
    pipelines.store(tx, tenant, before, source="decorator")
    tenants.set_only_signed(tx, tenant, is_so=True)
    assert not pipelines.store(tx, tenant, before, source="decorator").is_new, "a worker may start again"
    for source in ("decorator", "document", "derived", "api"):
        with pytest.raises(PipelineUnsigned):
            pipelines.store(tx, tenant, parse_spec(pipeline_document("new", "ship")), source=source)
    with pytest.raises(PipelineUnsigned):
        pipelines.store(
            tx, tenant, parse_spec(pipeline_document("old", "ship", description="x")), source="api"
        )
    done = install(
        tx, tenant, a_bundle(MINE, pipelines=[pipeline_document("old", "ship"), pipeline_document()])
    )
    assert [(each.pipeline_id, each.is_new) for each in done.pipelines] == [
        ("old", False),
        ("checkout", True),
    ]
    assert bundle_list.origin_of(tx, tenant, "old", 1) is not None
    tenants.set_only_signed(tx, tenant, is_so=False)
    assert pipelines.store(tx, tenant, parse_spec(pipeline_document("new", "ship")), source="api").is_new


def at_once(database: Database, verbs: Sequence[Callable[[Transaction], object]]) -> list[object]:
    """What verbs came to that began in the same moment, each in its own transaction."""
    outcomes: list[object] = [None] * len(verbs)
    gate = threading.Barrier(len(verbs))

    def run(at: int) -> None:
        gate.wait(60)
        try:
            outcomes[at] = database.run(verbs[at])
        except Exception as error:
            outcomes[at] = error

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(verbs))]
    for each in threads:
        each.start()
    for each in threads:
        each.join(120)
    return outcomes


def test_of_two_that_are_installed_at_once_the_newer_one_counts(database: Database, tenant: str) -> None:
    database.run(lambda tx: trust(tx, tenant, MINE))
    older, newer = (
        new(a_bundle(MINE, version=each, pipelines=[pipeline_document()])) for each in ("1.0", "1.1")
    )
    first, second = at_once(
        database,
        [lambda tx: installing.install(tx, tenant, older), lambda tx: installing.install(tx, tenant, newer)],
    )
    assert isinstance(second, Installed)
    assert isinstance(first, Installed | BundleDowngrade)
    with database.transaction() as tx:
        assert in_force(tx, tenant) == [("shop", "1.1")]


def test_a_key_that_is_revoked_while_its_bundle_is_installed_leaves_nothing_that_counts(
    database: Database, tenant: str
) -> None:
    database.run(lambda tx: trust(tx, tenant, MINE))
    bundle = new(a_bundle(MINE))
    at_once(
        database,
        [
            lambda tx: installing.install(tx, tenant, bundle),
            lambda tx: bundle_keys.revoke(tx, tenant, id_of(MINE)),
        ],
    )
    with database.transaction() as tx:
        assert in_force(tx, tenant) == []
