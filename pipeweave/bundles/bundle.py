"""Define Bundle: a manifest with its files and signatures, and what it takes to believe them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipeweave.bundles import archive, envelope, manifest
from pipeweave.bundles.envelope import BundleSignature
from pipeweave.bundles.manifest import BundleManifest
from pipeweave.errors import (
    BundleKeyRevoked,
    BundleKeyUnknown,
    BundleSignatureInvalid,
    InvalidBundle,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

MANIFEST, SIGNATURE = "bundle.json", "bundle.dsse.json"
SUFFIX = ".pwb"


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A public key of a tenant, as it is now."""

    public_key: bytes
    is_revoked: bool = False


@dataclass(frozen=True)
class Bundle:
    """A bundle whose manifest is valid and whose files are those that the manifest lists.

    Args:
        manifest: what it holds.
        files: the content of each file, by its path.
        envelope: the signature; None of a bundle that is not signed yet.
    """

    manifest: BundleManifest
    files: Mapping[str, bytes]
    envelope: BundleSignature | None = None

    @property
    def content_hash(self) -> str:
        """The SHA-256 of the manifest: the same for the same content, whoever signs it."""
        return hashlib.sha256(self.manifest.to_bytes()).hexdigest()

    @property
    def key_ids(self) -> list[str]:
        """The ids of the keys that it says have signed it."""
        return sorted(self.envelope.signatures) if self.envelope else []

    def signed(self, key: Ed25519PrivateKey) -> Bundle:
        """This bundle, also signed with a key."""
        before = self.envelope or BundleSignature(self.manifest.to_bytes(), {})
        return Bundle(self.manifest, self.files, before.with_signature(key))

    def to_bytes(self) -> bytes:
        """The bundle as a file: the same content and signatures give the same bytes."""
        files = {**self.files, MANIFEST: self.manifest.to_bytes()}
        if self.envelope is not None:
            files[SIGNATURE] = self.envelope.to_bytes()
        return archive.pack(files)

    def unpack_into(self, folder: Path) -> None:
        """Write the files below an empty folder."""
        for path, content in self.files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


def read(content: bytes) -> Bundle:
    """Read a bundle, and compare each file with its manifest. Says nothing of who signed it.

    Raises:
        InvalidBundle: it is no bundle, a file is not what the manifest says, or a name is refused.
        BundleSignatureInvalid: its signature cannot be read, or is that of another manifest.
    """
    files = archive.unpack(content)
    text = files.pop(MANIFEST, None)
    if text is None:
        raise InvalidBundle(f"the bundle has no {MANIFEST}")
    signature = files.pop(SIGNATURE, None)
    parsed = manifest.parse(text)
    manifest.check_files(parsed, files)
    sealed = None if signature is None else envelope.parse(signature)
    if sealed is not None and sealed.payload != text:
        raise BundleSignatureInvalid("the signature is that of another manifest")
    return Bundle(parsed, files, sealed)


def verified_by(bundle: Bundle, keys: Mapping[str, TrustedKey]) -> list[str]:
    """The ids of the trusted keys that have signed a bundle, at least one.

    A signature of a key that the tenant does not know is passed over: others may know it. One of a key that
    it knows must be right, also when the key is revoked.

    Args:
        keys: of the tenant, by id.

    Raises:
        BundleSignatureInvalid: it is not signed, or a signature of a known key is wrong.
        BundleKeyUnknown: the tenant knows none of the keys.
        BundleKeyRevoked: it knows some, and all of those are revoked.
    """
    if bundle.envelope is None:
        raise BundleSignatureInvalid(
            "the bundle is not signed", hint="sign it: `pipeweave bundle sign FILE --key KEY`"
        )
    known = [each for each in bundle.key_ids if each in keys]
    if not known:
        raise BundleKeyUnknown(
            f"none of the trusted keys signed it, but {', '.join(bundle.key_ids)}"[:500],
            hint="if you trust its maker, add the key: `pipeweave bundle keys add NAME KEY.pub`",
            keyIds=bundle.key_ids,
        )
    for key_id in known:
        if not bundle.envelope.is_signed_by(key_id, keys[key_id].public_key):
            raise BundleSignatureInvalid(f"the signature of key {key_id} does not belong to the bundle")
    trusted = [each for each in known if not keys[each].is_revoked]
    if not trusted:
        raise BundleKeyRevoked(
            f"every known key that signed it is revoked: {', '.join(known)}"[:500],
            hint="sign it with a key that the tenant trusts",
            keyIds=known,
        )
    return trusted
