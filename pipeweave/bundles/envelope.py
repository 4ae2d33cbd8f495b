"""Writes and reads the signature of a bundle: a DSSE envelope around its manifest.

https://github.com/secure-systems-lab/dsse/blob/master/envelope.md: what is signed is the type and the
payload, each with its length, so a signature of one type never counts for another.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from pipeweave.bundles import signing_keys
from pipeweave.errors import BundleSignatureInvalid

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PAYLOAD_TYPE = "application/vnd.pipeweave.bundle+json"
MAX_SIGNATURES = 8
"""The keys that may sign one bundle, at most."""


def canonical(document: Any) -> bytes:
    """The one text of a JSON document: sorted members, no blanks, UTF-8."""
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


def signed_bytes(payload: bytes) -> bytes:
    """What is signed of a payload: DSSE's pre-authentication encoding."""
    parts = (PAYLOAD_TYPE.encode(), payload)
    return b" ".join([b"DSSEv1", *(b"%d %s" % (len(each), each) for each in parts)])


@dataclass(frozen=True, slots=True)
class BundleSignature:
    """A payload and its signatures, by the id of the key."""

    payload: bytes
    signatures: Mapping[str, bytes]

    def with_signature(self, key: Ed25519PrivateKey) -> BundleSignature:
        """This envelope, also signed with a key.

        Raises:
            BundleSignatureInvalid: as many keys as may have signed it.
        """
        key_id = signing_keys.key_id_of(signing_keys.public_bytes(key))
        signatures = {**self.signatures, key_id: key.sign(signed_bytes(self.payload))}
        if len(signatures) > MAX_SIGNATURES:
            raise BundleSignatureInvalid(f"a bundle has at most {MAX_SIGNATURES} signatures")
        return BundleSignature(self.payload, signatures)

    def is_signed_by(self, key_id: str, public_key: bytes) -> bool:
        """Whether the signature of this key is there, and counts."""
        signature = self.signatures.get(key_id)
        return signature is not None and signing_keys.is_signed(
            public_key, signature, signed_bytes(self.payload)
        )

    def to_bytes(self) -> bytes:
        return canonical(
            {
                "payload": b64encode(self.payload).decode(),
                "payloadType": PAYLOAD_TYPE,
                "signatures": [
                    {"keyid": each, "sig": b64encode(self.signatures[each]).decode()}
                    for each in sorted(self.signatures)
                ],
            }
        )


def parse(text: bytes) -> BundleSignature:
    """Read an envelope. What is not written as `to_bytes` writes it is refused.

    Raises:
        BundleSignatureInvalid: it is no envelope of a bundle.
    """
    try:
        envelope = _read(orjson.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError, binascii.Error):
        envelope = None
    if envelope is None or envelope.to_bytes() != text:
        raise BundleSignatureInvalid("the signature of the bundle is not a DSSE envelope of a bundle")
    return envelope


def _read(document: Any) -> BundleSignature | None:
    signatures = document["signatures"]
    if document["payloadType"] != PAYLOAD_TYPE or not 0 < len(signatures) <= MAX_SIGNATURES:
        return None
    by_key = {str(each["keyid"]): b64decode(each["sig"], validate=True) for each in signatures}
    return BundleSignature(b64decode(document["payload"], validate=True), by_key)
