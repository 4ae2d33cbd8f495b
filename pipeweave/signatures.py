"""Sign dispatches, and check their signatures: how an HTTP worker knows that its orchestrator called it.

The header `X-PipeWeave-Signature` is `t=<unix seconds>,v1=<hex>`: HMAC-SHA256 with the worker secret over
`<t>.<path>.<body>`. The path and the time are signed, too, so that a recorded dispatch can neither be sent to
another task nor be sent again later.
"""

from __future__ import annotations

import hashlib
import hmac
import re

from pipeweave.key_ring import derived, first_key, keys_of

HEADER = "X-PipeWeave-Signature"

MAX_AGE_S = 300
"""A worker refuses a dispatch whose time differs from its own clock by more than this (s)."""

_FORM = re.compile(r"t=(?P<at>[0-9]{1,12}),v1=(?P<mac>[0-9a-f]{64})\Z")


def sign(secret: str, at: int, path: str, body: bytes) -> str:
    """The value of the header.

    Args:
        secret: the worker secret, of which the first key signs.
        at: the time of the dispatch (s since the epoch).
        path: of the request as it is sent, with its leading slash and without the query.
        body: the bytes of the request.
    """
    return f"t={at},v1={_mac(first_key(secret), at, path, body)}"


def is_valid(secret: str, header: str, path: str, body: bytes, now: float) -> bool:
    """Whether a header was made with a key of this secret for this request, at most MAX_AGE_S ago or ahead.

    Args:
        now: the worker's clock (s since the epoch).
    """
    match = _FORM.match(header)
    if match is None or abs(now - int(match["at"])) > MAX_AGE_S:
        return False
    made = [_mac(each, int(match["at"]), path, body) for each in keys_of(secret)]
    return any([hmac.compare_digest(match["mac"], each) for each in made])


def worker_secret(secret: str, tenant: str, service_id: str, *, is_shared: bool) -> str:
    """The secret that a service shares with the deployment: as many keys as the deployment has.

    Args:
        secret: the deployment's PIPEWEAVE_SECRET_KEY.
        is_shared: whether that is the worker secret of all services (WORKER_SECRETS=shared); else each
            service has its own, from which nobody can compute another.
    """
    if is_shared:
        return secret
    return derived(secret, f"worker/{tenant}/{service_id}")


def _mac(secret: str, at: int, path: str, body: bytes) -> str:
    return hmac.new(secret.encode(), b"%d.%s.%s" % (at, path.encode(), body), hashlib.sha256).hexdigest()
