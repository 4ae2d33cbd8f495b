"""Answers pages that fetch their fragments again and again, from what is kept and before the application.

Such requests of one reader are equal but for the tags that they name. So what the application found out for
the first of them holds for the others: who asks, what that reader sees at this address, and the fields of the
answer. Everything that it looked at is compared with each request, and who asks is what the authenticator
knows at this moment. Whatever is another, old or unusual is the application's.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from flask import Flask

from pipeweave.api.http import Authenticator, Identity, headers, packing, proxies
from pipeweave.api.ui.live_views import ANNOUNCED, FRAGMENT, READ_AT, Fragment, LiveView, seconds_of

# Requests that are remembered, and the most characters of one.
MOST_KEPT = 512
LONGEST = 4_096
KNOWN_FETCH = "pipeweave.known_fetch"
"""Where the dashboard leaves what it found out for a request."""

_FRAGMENT, _ANNOUNCED, _READ_AT = (
    f"HTTP_{name.upper().replace('-', '_')}" for name in (FRAGMENT, ANNOUNCED, READ_AT)
)
# All that an answer follows from, besides the tags.
_LOOKED_AT = (
    "PATH_INFO",
    "QUERY_STRING",
    "RAW_URI",
    "SCRIPT_NAME",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "wsgi.url_scheme",
    "REMOTE_ADDR",
    proxies.CERTIFICATE,
    "HTTP_HOST",
    "HTTP_AUTHORIZATION",
    "HTTP_COOKIE",
    "HTTP_SEC_FETCH_SITE",
    "HTTP_SEC_FETCH_MODE",
    "HTTP_ACCEPT_ENCODING",
)
# No page sends these when it fetches a fragment.
_UNUSUAL = frozenset(
    f"HTTP_{name}"
    for name in (
        "ORIGIN",
        "RANGE",
        "IF_RANGE",
        "IF_MATCH",
        "IF_MODIFIED_SINCE",
        "IF_UNMODIFIED_SINCE",
        "TRANSFER_ENCODING",
        "UPGRADE",
    )
)
_OK, _NOT_MODIFIED = "200 OK", "304 NOT MODIFIED"
_ONE_TAG = re.compile(r'(?:W/)?"([0-9a-f]+)"\Z')
# These fields are another one's in each answer. The server says the date.
_OWN = frozenset({"date", "content-length", "etag", READ_AT.lower(), headers.REQUEST_ID.lower()})

Environ = dict[str, Any]
Count = Callable[[str, int, float], None]
_Key = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class KnownFetch:
    """What the application found out for a request of a fragment.

    Args:
        identity: who asks.
        session: the secret of the browser's session, if it counts.
        view: what this reader sees at the address.
        operation: the name under which such requests are counted.
        takes_packed: whether the browser unpacks.
    """

    identity: Identity
    session: str | None = field(repr=False)
    view: LiveView
    operation: str
    takes_packed: bool


class AnnouncedAnswers:
    """The requests for fragments that were answered last, by all that their answers follow from.

    Args:
        count: counts a request: its operation, its status, and the seconds that it took.
    """

    def __init__(self, authenticator: Authenticator, count: Count) -> None:
        self._authenticator = authenticator
        self._count = count
        self._heard: dict[_Key, KnownFetch] = {}
        # Status and whether it is packed -> the fields that all such answers have.
        self._fields: dict[tuple[str, bool], list[tuple[str, str]]] = {}

    def register(self, app: Flask) -> None:
        """Make the app ask this first."""
        self._app = app.wsgi_app
        app.wsgi_app = self  # type: ignore[method-assign, assignment]

    def __call__(self, environ: Environ, start: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request (PEP 3333)."""
        if _FRAGMENT not in environ or environ["REQUEST_METHOD"] != "GET":
            return self._app(environ, start)
        began = time.monotonic()
        key = tuple([environ.get(each) for each in _LOOKED_AT])
        heard = self._heard.get(key)
        kept = self._kept(heard, environ) if heard is not None and _UNUSUAL.isdisjoint(environ) else None
        if heard is None or kept is None:
            return self._ask(key, environ, start)
        status, fields, body = kept
        start(status, fields)
        self._count(heard.operation, int(status[:3]), time.monotonic() - began)
        return [body]

    def _kept(self, heard: KnownFetch, environ: Environ) -> tuple[str, list[tuple[str, str]], bytes] | None:
        """Status, fields and content; None: only the application can answer."""
        if not self._is_still(heard, environ):
            return None
        had = environ.get("HTTP_IF_NONE_MATCH")
        one = _ONE_TAG.match(had) if had else None
        if had and one is None:
            return None
        view, since = heard.view, seconds_of(environ.get(_READ_AT))
        fragment = view.fragments.kept(view, environ.get(_ANNOUNCED), since)
        if fragment is None:
            return None
        return self._answer(heard, fragment, one[1] if one else "", environ)

    def _is_still(self, heard: KnownFetch, environ: Environ) -> bool:
        """Whether the authenticator knows, without asking, that the same one asks with the same rights."""
        known = self._authenticator.remembered(environ.get("HTTP_AUTHORIZATION", ""), heard.session)
        return known is heard.identity or (known is not None and known == heard.identity)

    def _answer(
        self, heard: KnownFetch, fragment: Fragment, had: str, environ: Environ
    ) -> tuple[str, list[tuple[str, str]], bytes] | None:
        is_had = had == fragment.tag
        is_packed = not is_had and heard.takes_packed and len(fragment.body) >= packing.LEAST
        status = _NOT_MODIFIED if is_had else _OK
        shared = self._fields.get((status, is_packed))
        if shared is None:
            # The application has not shown yet which fields such an answer has.
            return None
        fields = [
            *shared,
            ("ETag", f'"{fragment.tag}"'),
            (READ_AT, f"{fragment.read_at:.6f}"),
            (headers.REQUEST_ID, headers.id_of(environ)),
        ]
        if is_had:
            return status, fields, b""
        body = fragment.packed if is_packed else fragment.body
        fields.append(("Content-Length", str(len(body))))
        return status, fields, body

    def _ask(self, key: _Key, environ: Environ, start: Callable[..., Any]) -> Iterable[bytes]:
        """Let the application answer, and remember what it found out."""

        def hear(status: str, fields: list[tuple[str, str]], *more: Any) -> Any:
            heard: KnownFetch | None = environ.get(KNOWN_FETCH)
            if heard is not None and status in (_OK, _NOT_MODIFIED) and _UNUSUAL.isdisjoint(environ):
                self._remember(key, heard, status, fields)
            return start(status, fields, *more)

        return self._app(environ, hear)

    def _remember(self, key: _Key, heard: KnownFetch, status: str, fields: list[tuple[str, str]]) -> None:
        if sum(len(each) for each in key if each) > LONGEST:
            return
        if len(self._heard) >= MOST_KEPT:
            self._heard.clear()
        self._heard[key] = heard
        is_packed = any(name == "Content-Encoding" for name, _ in fields)
        self._fields[status, is_packed] = [each for each in fields if each[0].lower() not in _OWN]
