"""Networks and addresses, behind proxies and not; the certificate that a proxy hands on."""

from __future__ import annotations

import base64
import hashlib
import ssl
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave.api.http import proxies
from pipeweave.orchestrator.security import places

DER = b"0\x82 not a real certificate, but bytes"
PEM = ssl.DER_cert_to_PEM_cert(DER)
PROXIES = ("10.0.0.0/8", "fd00::/8")


@pytest.mark.parametrize(
    ("address", "networks", "is_in"),
    [
        ("10.1.2.3", ("10.1.0.0/16",), True),
        ("10.2.2.3", ("10.1.0.0/16",), False),
        ("::ffff:10.1.2.3", ("10.1.0.0/16",), True),
        ("10.1.2.3", ("2001:db8::/32",), False),
        ("2001:db8::7", ("10.1.0.0/16", "2001:db8::/32"), True),
        ("fe80::1%eth0", ("fe80::/10",), True),
        ("", ("0.0.0.0/0", "::/0"), False),
        (None, ("0.0.0.0/0", "::/0"), False),
        ("unknown", ("0.0.0.0/0",), False),
    ],
)
def test_an_address_is_in_a_network_or_not(
    address: str | None, networks: tuple[str, ...], is_in: bool
) -> None:
    assert places.is_within(address, networks) is is_in


@pytest.mark.parametrize(
    ("hops", "client"),
    [
        ("", "10.0.0.1"),
        ("203.0.113.9", "203.0.113.9"),
        ("203.0.113.9, 10.0.0.7", "203.0.113.9"),
        # Whatever the client wrote stands to the left of what the proxy saw.
        ("10.9.9.9, 203.0.113.9, 10.0.0.7", "203.0.113.9"),
        ("junk, 203.0.113.9", "203.0.113.9"),
        ("203.0.113.9:4711", "203.0.113.9"),
        ("[2001:db8::9]:4711, fd00::1", "2001:db8::9"),
        ("10.0.0.8, 10.0.0.7", "10.0.0.8"),
        ("203.0.113.9, unknown", ""),
        ("203.0.113.9, _hidden, 10.0.0.7", ""),
    ],
)
def test_the_first_address_from_the_right_that_is_no_proxy_is_the_clients(hops: str, client: str) -> None:
    assert proxies.client_of("10.0.0.1", hops, PROXIES) == client


@given(st.text(max_size=200))
def test_what_a_client_writes_never_becomes_its_address(written: str) -> None:
    hops = f"{written}, 203.0.113.9, 10.0.0.7"
    assert proxies.client_of("10.0.0.1", hops, PROXIES) == "203.0.113.9"


@pytest.mark.parametrize("header", [f":{base64.b64encode(DER).decode()}:", quote(PEM), quote(PEM, safe="")])
def test_a_certificate_is_known_by_its_sha_256(header: str) -> None:
    assert proxies.thumbprint(header) == hashlib.sha256(DER).hexdigest()


@pytest.mark.parametrize("header", ["", ":", "::", ":not base64:", "(null)", "-----BEGIN", "a" * 70_000])
def test_what_is_no_certificate_has_no_thumbprint(header: str) -> None:
    assert proxies.thumbprint(header) is None


def seen(peer: str, **headers: str) -> dict[str, Any]:
    environ: dict[str, Any] = {"REMOTE_ADDR": peer, "wsgi.url_scheme": "http", **headers}
    unwrapping = proxies._Unwrapping(lambda environ, start: [], PROXIES)
    unwrapping(environ, lambda *_: None)
    return environ


FORGED = {
    "HTTP_X_FORWARDED_FOR": "192.0.2.1",
    "HTTP_X_FORWARDED_PROTO": "https",
    "HTTP_CLIENT_CERT": quote(PEM),
    proxies.CERTIFICATE: "00" * 32,
}


def test_only_a_trusted_proxy_is_believed() -> None:
    stranger = seen("203.0.113.9", **FORGED)
    assert (stranger["REMOTE_ADDR"], stranger["wsgi.url_scheme"]) == ("203.0.113.9", "http")
    assert proxies.CERTIFICATE not in stranger
    proxy = seen("10.0.0.1", **FORGED)
    assert (proxy["REMOTE_ADDR"], proxy["wsgi.url_scheme"]) == ("192.0.2.1", "https")
    assert proxy[proxies.CERTIFICATE] == hashlib.sha256(DER).hexdigest()
