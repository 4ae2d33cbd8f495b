"""Finds out where a request comes from behind proxies that TRUSTED_PROXIES names.

Whoever else sends such headers is not believed: the address is that of the connection, and there is no
certificate. A proxy adds what it sees at the right of X-Forwarded-For, so the first address from there that
is no proxy is the client's. A proxy has to set or remove Client-Cert itself, whatever the client sends.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import ssl
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import unquote

from flask import Flask, Request

from pipeweave.orchestrator.security import Peer, places

CERTIFICATE = "pipeweave.certificate"
# A chain of more proxies, and a larger certificate, are not read.
MOST_PROXIES = 20
MAX_CERTIFICATE = 64 * 1024


def register(app: Flask, trusted: tuple[str, ...]) -> None:
    """Make the app know clients behind these proxies.

    Args:
        trusted: networks, e.g. `10.0.0.0/8`; empty: none.
    """
    app.wsgi_app = _Unwrapping(app.wsgi_app, trusted)  # type: ignore[method-assign, assignment]


def peer_of(request: Request) -> Peer:
    """Where a request comes from."""
    return Peer(request.remote_addr, request.environ.get(CERTIFICATE))


class _Unwrapping:
    def __init__(self, app: Any, trusted: tuple[str, ...]) -> None:
        self._app = app
        self._trusted = trusted

    def __call__(self, environ: MutableMapping[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        environ.pop(CERTIFICATE, None)
        if self._trusted and places.is_within(environ.get("REMOTE_ADDR"), self._trusted):
            environ[CERTIFICATE] = thumbprint(environ.get("HTTP_CLIENT_CERT", ""))
            hops = str(environ.get("HTTP_X_FORWARDED_FOR", ""))
            environ["REMOTE_ADDR"] = client_of(str(environ["REMOTE_ADDR"]), hops, self._trusted)
            scheme = str(environ.get("HTTP_X_FORWARDED_PROTO", "")).rpartition(",")[2].strip().lower()
            if scheme in ("http", "https"):
                environ["wsgi.url_scheme"] = scheme
        answer: Iterable[bytes] = self._app(environ, start)
        return answer


def client_of(proxy: str, hops: str, trusted: tuple[str, ...]) -> str:
    """The address of the client that a proxy speaks for; empty: it cannot be told.

    Args:
        proxy: the address of the connection, which is trusted.
        hops: X-Forwarded-For.
    """
    client = proxy
    for hop in reversed([each for each in hops.split(",") if each.strip()][-MOST_PROXIES:]):
        address = places.address_of(_without_port(hop.strip()))
        if address is None:
            return ""
        client = str(address)
        if not places.is_within(client, trusted):
            break
    return client


def _without_port(hop: str) -> str:
    """Some proxies add the port: `1.2.3.4:5678`, `[2001:db8::1]:5678`."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop


def thumbprint(header: str) -> str | None:
    """SHA-256 of the certificate in a header, as hex; None: there is none, or it cannot be read.

    Args:
        header: `:base64 of DER:` (RFC 9440), or PEM in percent-encoding, as nginx has it.
    """
    text = header.strip()
    if not text or len(text) > MAX_CERTIFICATE:
        return None
    try:
        if text.startswith(":") and text.endswith(":") and len(text) > 1:
            certificate = base64.b64decode(text[1:-1], validate=True)
        else:
            certificate = ssl.PEM_cert_to_DER_cert(unquote(text))
    except (ValueError, binascii.Error):
        return None
    return hashlib.sha256(certificate).hexdigest() if certificate else None
