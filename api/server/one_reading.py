"""Refuses requests that gunicorn takes and that a proxy on their way may read in another way (RFC 9112).

Two readings of one request are how rules of a proxy are passed by: rules for hosts, paths and bodies.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from gunicorn.http.errors import InvalidHeader, ParseException, UnsupportedTransferCoding

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+;=%-]*)(:[0-9]*)?\Z")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class Misdirected(ParseException):
    """The target of the request is of another host than its header Host says."""


def check(request: Any) -> None:
    """Check what gunicorn has parsed.

    Args:
        request: gunicorn's, with its body unread.

    Raises:
        InvalidHeader: Host is no name of a host (RFC 9112, 3.2).
        Misdirected: an absolute target names no host of the web, or another one than Host (3.2.2).
        UnsupportedTransferCoding: the body has a coding beside `chunked`, which nobody would undo (6.1).
    """
    hosts = [value for name, value in request.headers if name == "HOST"]
    if not all(map(_HOST.match, hosts)):
        raise InvalidHeader("HOST", req=request)
    if not request.uri.startswith("/") and request.uri != "*" and request.method != "CONNECT":
        _check_absolute(request.uri, hosts)
    for name, value in request.headers:
        if name == "TRANSFER-ENCODING" and value.strip().lower() != "chunked":
            raise UnsupportedTransferCoding(value)


def _check_absolute(target: str, hosts: list[str]) -> None:
    parts = urlsplit(target)
    port = _DEFAULT_PORTS.get(parts.scheme.lower())
    if port is None or [_host(parts.netloc, port)] != [_host(each, port) for each in hosts]:
        raise Misdirected(target[:200])


def _host(authority: str, default_port: str) -> str:
    return authority.lower().removesuffix(default_port).removesuffix(":")
