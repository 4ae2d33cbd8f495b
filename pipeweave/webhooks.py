"""Sign webhooks, and check their signatures, in the form of one of three schemes.

| scheme | header | signed |
|---|---|---|
| `pipeweave` | `X-PipeWeave-Signature: t=<unix seconds>,v1=<hex>` | `<t>.<body>` |
| `stripe` | `Stripe-Signature: t=<unix seconds>,v1=<hex>` | `<t>.<body>` |
| `github` | `X-Hub-Signature-256: sha256=<hex>` | the body |

All of them are HMAC-SHA256. A header may hold several `v1`, of several secrets.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pipeweave.key_ring import derived, keys_of

HEADER: Final = "X-PipeWeave-Signature"
"""The header of the signature of the scheme `pipeweave`."""

DELIVERY: Final = "X-PipeWeave-Delivery"
"""The header of the id of a delivery: the same one when it is sent again."""

MAX_AGE_S: Final = 300
"""A signature is refused when its time differs by more than this (s), in either direction."""

SCHEMES: Final = {
    "pipeweave": HEADER.lower(),
    "github": "x-hub-signature-256",
    "stripe": "stripe-signature",
}
"""Scheme -> the header with the signature, in lower case."""

DEFAULT_SCHEME: Final = "pipeweave"

_MOST_MACS = 5
_TIMED = re.compile(r"t=(?P<at>[0-9]{1,12})(?P<rest>(?:,[a-z0-9]{1,10}=[0-9a-f]{1,128}){1,10})\Z")
_MAC = re.compile(r",v1=([0-9a-f]{64})(?=,|\Z)")
_UNTIMED = re.compile(r"sha256=([0-9a-f]{64})\Z")


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature as a header gives it.

    Args:
        at: its time (s since the epoch); None where the scheme has none.
        macs: hexadecimal, one for each secret that it was made with.
    """

    at: int | None
    macs: tuple[str, ...]


def delivery_line(url: str, headers: Sequence[str] = ()) -> str:
    """The command that delivers body.json to a webhook of the scheme `pipeweave`, with the secret in the file
    key.

    Args:
        url: where deliveries go.
        headers: those that the run gets; its input may name them, and a delivery without one is refused then.
    """
    named = "".join(f"-H '{each}: …' " for each in headers)
    signed = '-H "$(pipeweave triggers sign --secret-file key body.json)"'
    return f"curl {signed} {named}--data-binary @body.json {url}"


def sign(secret: str, at: int, body: bytes) -> str:
    """The header X-PipeWeave-Signature of a body.

    Args:
        secret: with several keys, the header has a `v1` of each: a receiver may know any of them.
        at: the time (s since the epoch).
    """
    macs = ",".join(f"v1={_mac(each, at, body)}" for each in keys_of(secret))
    return f"t={at},{macs}"


def signature_of(scheme: str, headers: Mapping[str, str]) -> Signature | None:
    """The signature of a request; None without one in the form of its scheme.

    Args:
        headers: by names in lower case.
    """
    text = headers.get(SCHEMES[scheme], "").replace(", ", ",")
    if scheme == "github":
        match = _UNTIMED.match(text)
        return None if match is None else Signature(None, (match[1],))
    match = _TIMED.match(text)
    macs = () if match is None else tuple(_MAC.findall(match["rest"]))
    return None if match is None or not macs else Signature(int(match["at"]), macs[:_MOST_MACS])


def matching(signature: Signature, secrets: Collection[str], body: bytes, now: float) -> str | None:
    """The part of a signature that one of these secrets made for this body; None when none did, or when the
    signature was made more than MAX_AGE_S ago or ahead.

    Args:
        now: s since the epoch.
    """
    mac = None
    # All are compared: how long it takes does not say which one fits.
    for secret in secrets:
        expected = _mac(secret, signature.at, body)
        for each in signature.macs:
            if hmac.compare_digest(each, expected):
                mac = each
    is_late = signature.at is not None and abs(now - signature.at) > MAX_AGE_S
    return None if is_late else mac


def is_valid(secret: str, header: str, body: bytes, now: float) -> bool:
    """Whether a header X-PipeWeave-Signature was made with this secret for this body, at most MAX_AGE_S ago
    or ahead: what a receiver checks.

    Args:
        now: the receiver's clock (s since the epoch).
    """
    signature = signature_of("pipeweave", {SCHEMES["pipeweave"]: header})
    return signature is not None and matching(signature, keys_of(secret), body, now) is not None


def hook_secret(secret_key: str, tenant: str, name: str) -> str:
    """The secret that signs what the hooks of pipelines send: as many keys as the deployment has.

    Args:
        secret_key: the deployment's PIPEWEAVE_SECRET_KEY.
        name: as the hook names it.
    """
    return derived(secret_key, f"hook/{tenant}/{name}")


def _mac(secret: str, at: int | None, body: bytes) -> str:
    signed = body if at is None else b"%d.%s" % (at, body)
    return hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
