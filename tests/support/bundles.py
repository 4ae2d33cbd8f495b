"""Bundles for tests: made without importing what they hold."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pipeweave.bundles import manifest as manifests
from pipeweave.bundles import signing_keys
from pipeweave.bundles.bundle import Bundle, TrustedKey
from pipeweave.bundles.envelope import canonical
from pipeweave.orchestrator.bundles import installing
from pipeweave.orchestrator.store import Database, Values

SOURCE = b"from pipeweave import task\n\n\n@task\ndef charge(amount: int) -> int:\n    return amount + 1\n"


def key_of(seed: int) -> Ed25519PrivateKey:
    """A key of its own for each number below 256."""
    return Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)


def id_of(key: Ed25519PrivateKey) -> str:
    return signing_keys.key_id_of(signing_keys.public_bytes(key))


def trusting(*keys: Ed25519PrivateKey, revoked: Sequence[Ed25519PrivateKey] = ()) -> dict[str, TrustedKey]:
    """The keys of a tenant that trusts some keys, and has revoked others."""
    known = [(each, False) for each in keys] + [(each, True) for each in revoked]
    return {id_of(key): TrustedKey(signing_keys.public_bytes(key), is_off) for key, is_off in known}


def task_entry(id: str = "charge", *, module: str = "tasks", **options: Any) -> dict[str, Any]:
    """The entry of a task in a manifest."""
    registration = {"id": id, "codeHash": hashlib.sha256(id.encode()).hexdigest(), **options}
    return {"module": module, "function": id, "registration": registration, "sandbox": None}


def pipeline_document(id: str = "checkout", task: str = "charge", **members: Any) -> dict[str, Any]:
    """The document of a pipeline of one step."""
    return {"id": id, "steps": [{"id": "pay", "task": task, "params": {"amount": 1}}], **members}


def manifest_document(content: Mapping[str, bytes], **members: Any) -> dict[str, Any]:
    """The manifest of files, as JSON."""
    listed = [
        {"path": path, "sha256": hashlib.sha256(content[path]).hexdigest(), "size": len(content[path])}
        for path in sorted(content)
    ]
    return {
        "format": 1,
        "id": "shop",
        "version": "1.0.0",
        "python": ">=3.11",
        "tasks": [task_entry()],
        "pipelines": [],
        "requires": [],
        "files": listed,
        **members,
    }


def a_bundle(*keys: Ed25519PrivateKey, files: Mapping[str, bytes] | None = None, **members: Any) -> Bundle:
    """A bundle of one task, `charge`, signed with these keys.

    Args:
        files: of the bundle, by their paths.
        members: of its manifest, in place of the usual ones.
    """
    content = {"src/tasks.py": SOURCE} if files is None else files
    document = manifest_document(content, **members)
    bundle = Bundle(manifests.parse(canonical(document)), content)
    for key in keys:
        bundle = bundle.signed(key)
    return bundle


def install(database: Database, values: Values, tenant: str, bundle: Bundle, **options: Any) -> Path:
    """Install a bundle; where its file is."""
    content = bundle.to_bytes()
    place = values.keep_bytes(content, values.backends.default_id, "application/octet-stream")
    registration = installing.registration_of(bundle.manifest)
    new = installing.NewBundle(
        bundle, len(content), str(place), registration, bundle.manifest.specs(), "test"
    )
    database.run(lambda tx: installing.install(tx, tenant, new, **options))
    storage: Any = values.backends.get(place.backend)
    return Path(storage.root) / place.path
