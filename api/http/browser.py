"""Says which requests may use a browser's session, and writes and clears its cookie.

A browser adds the cookie to requests by itself, so a session counts only where the browser says that the
request comes from a page of this server, or that a person opens one. No page holds a secret for that, and
no list of origins (CORS_ORIGINS) ever applies to a session.
"""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlsplit

from flask import Request
from werkzeug.wrappers import Response as AnyResponse

from pipeweave.errors import CrossSite, Forbidden
from pipeweave.orchestrator.security import sessions

# A browser takes a cookie of this name only over HTTPS, for this host alone and for every path.
SECURE_NAME = "__Host-pipeweave"
# Over plain HTTP. Cookies do not tell ports apart, so two servers of one host need two names.
PLAIN_NAME = "pipeweave-{port}"
# Behind these names: of a login at an OpenID provider that is under way.
TRIAL = "-login"

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_API = "/api/"


def session_of(request: Request) -> str | None:
    """The secret of the session that a request may use; None when it has no session, or has a token.

    Raises:
        CrossSite: the request has a session, and does not come from a page of this server.
    """
    # Programs send a token and no cookie: of their requests nothing is parsed.
    if "HTTP_COOKIE" not in request.environ or request.headers.get("Authorization"):
        return None
    secret = request.cookies.get(cookie_name(request))
    if not secret:
        return None
    if not (_is_own(request) or _opens_a_page(request)):
        raise CrossSite(
            "the request comes from another site", hint="programs send a token: Authorization: Bearer <token>"
        )
    return secret


def require_own_page(request: Request) -> None:
    """Refuse a request that another site sends, whether it has a session or not: a login, a logout.

    Raises:
        CrossSite: the request does not come from a page of this server.
    """
    if not _is_own(request):
        raise CrossSite("the request comes from another site", hint="open /ui/login in this browser")


def require_private_line(request: Request, *, is_insecure_allowed: bool) -> None:
    """Refuse to begin a session over plain HTTP, except within one machine.

    Raises:
        Forbidden: others could read the cookie on its way.
    """
    if not (request.is_secure or is_insecure_allowed or _name_of(request.host) in _LOOPBACK):
        raise Forbidden(
            "a login over plain HTTP could be read by others on the way",
            hint="use HTTPS (a proxy must send X-Forwarded-Proto), or set UI_INSECURE=true",
        )


def cookie_name(request: Request) -> str:
    """The name of the session's cookie: browsers guard one that came over HTTPS better."""
    if request.is_secure:
        return SECURE_NAME
    return PLAIN_NAME.format(port=urlsplit(f"//{request.host}").port or 80)


def keep(request: Request, response: AnyResponse, secret: str) -> None:
    """Give the browser a session's cookie. It may keep it longer than the session lives."""
    response.set_cookie(
        cookie_name(request),
        secret,
        max_age=sessions.LONGEST,
        path="/",
        secure=request.is_secure,
        httponly=True,
        samesite="Lax",
    )


def forget(request: Request, response: AnyResponse) -> None:
    """Make the browser forget the session, and the pages that it kept.

    Not `cookies` and `storage`: on localhost, other programs' cookies would go, too.
    """
    response.delete_cookie(
        cookie_name(request), path="/", secure=request.is_secure, httponly=True, samesite="Lax"
    )
    response.headers["Clear-Site-Data"] = '"cache"'


def keep_trial(request: Request, response: AnyResponse, sealed: str, life: timedelta) -> None:
    """Give the browser what belongs to a login at a provider, until it comes back."""
    response.set_cookie(
        f"{cookie_name(request)}{TRIAL}",
        sealed,
        max_age=life,
        path="/",
        secure=request.is_secure,
        httponly=True,
        samesite="Lax",
    )


def trial_of(request: Request) -> str | None:
    """What `keep_trial` gave the browser; None: nothing."""
    return request.cookies.get(f"{cookie_name(request)}{TRIAL}")


def forget_trial(request: Request, response: AnyResponse) -> None:
    """Make the browser forget what `keep_trial` gave it."""
    name = f"{cookie_name(request)}{TRIAL}"
    response.delete_cookie(name, path="/", secure=request.is_secure, httponly=True, samesite="Lax")


def _is_own(request: Request) -> bool:
    """Whether the browser says that a page of this server sends the request."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site == "same-origin"
    # Over plain HTTP, browsers send it to their own host only. What may change something has an Origin.
    origin = request.headers.get("Origin")
    if origin is None:
        return request.method in _SAFE
    return urlsplit(origin).netloc.lower() == request.host.lower()


def _opens_a_page(request: Request) -> bool:
    """Whether a person opens a page: by a link elsewhere, a bookmark or the address bar."""
    return (
        request.method in _SAFE
        and not request.path.startswith(_API)
        and request.headers.get("Sec-Fetch-Mode") == "navigate"
    )


def _name_of(host: str) -> str:
    return host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
