"""Says where dispatches to an instance of a service go (pure)."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit, urlunsplit


def address_of(registered: str, peer: str | None, override: str | None, *, uses_peer: bool) -> str:
    """Where dispatches to an instance go.

    Args:
        registered: the URL that it registers; the SDK always says `http://localhost:<port>`.
        peer: the address that the registration came from.
        override: of the service: a URL, or `peer`; None for what the deployment says.
        uses_peer: whether the deployment takes the peer's address (WORKER_ADDRESS=peer).
    """
    if override is not None and override != "peer":
        return override
    if peer is None or not (uses_peer or override == "peer"):
        return registered
    parts: Any = urlsplit(registered)
    host = f"[{peer}]" if ":" in peer else peer
    return str(urlunsplit(parts._replace(netloc=host if parts.port is None else f"{host}:{parts.port}")))
