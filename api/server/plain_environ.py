"""The environ of requests with a plain head: what is the same for all of a connection is made once."""

from __future__ import annotations

import functools
import io
from typing import Any

from gunicorn.config import Config
from gunicorn.http import RequestParser
from gunicorn.http.errors import ConfigurationProblem
from gunicorn.http.message import HeaderPolicy
from gunicorn.http.wsgi import base_environ, create

_SAMPLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


class PlainEnviron:
    """What the requests of a connection have in common.

    Attributes:
        scheme_keys: the variables of the fields by which the peer may say the scheme; a peer that is no
            trusted proxy has none.
    """

    def __init__(self, config: Config, client: Any, server: Any) -> None:
        secure, _ = _Peer(config, client)._peer_trusted_for_forwarded()
        self._secure = {f"HTTP_{name.replace('-', '_')}": value for name, value in secure.items()}
        self.scheme_keys = tuple(self._secure)
        self._common: dict[str, Any] = {
            **base_environ(config),
            "wsgi.multithread": True,
            "wsgi.url_scheme": "http",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "SERVER_NAME": server[0],
            "SERVER_PORT": str(server[1]),
            "REMOTE_ADDR": client[0],
            "REMOTE_PORT": str(client[1]),
            "SCRIPT_NAME": "",
        }

    @classmethod
    def of(cls, config: Config, client: Any, server: Any) -> PlainEnviron | None:
        """The common variables; None where only gunicorn can tell them.

        Args:
            client, server: the two addresses of the connection.
        """
        is_usual = isinstance(client, tuple) and isinstance(server, tuple) and not config.is_ssl
        return cls(config, client, server) if is_usual and _is_at_root(config) else None

    def of_request(self, head: dict[str, str], body: bytes, client: Any) -> dict[str, Any]:
        """The environ of a request.

        Args:
            head: the variables that its head holds.
            body: all of it.
            client: its socket.
        """
        environ = {**self._common, **head, "wsgi.input": io.BytesIO(body), "gunicorn.socket": client}
        for key in self.scheme_keys:
            if key in head:
                environ["wsgi.url_scheme"] = "https" if head[key] == self._secure[key] else "http"
        return environ


class _Peer(HeaderPolicy):
    """Whom gunicorn asks whether it trusts the peer."""

    def __init__(self, config: Config, address: Any) -> None:
        self.cfg = config
        self.peer_addr = address


@functools.lru_cache(1)
def _is_at_root(config: Config) -> bool:
    """Whether the paths of requests are the application's: gunicorn may serve below another path."""
    address = ("", 0)
    request = next(RequestParser(config, iter([_SAMPLE]), address))
    try:
        _, environ = create(request, None, address, address, config)
    except ConfigurationProblem:
        return False
    return not environ["SCRIPT_NAME"]
