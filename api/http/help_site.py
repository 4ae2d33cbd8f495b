"""Serves the pages of docs/ as a site, `/help`, built by `make docs`; it loads nothing from other hosts."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from flask import Flask, Response, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from pipeweave.errors import NotFound

# Where the site is built. That may happen while the API runs, so each request looks.
FOLDER = Path(__file__).parents[1] / "help"
FIRST_PAGE = "index.html"
# The theme's own script writes HTML: the site has a policy of Trusted Types for it, named `default`
# (help_pages/trusted_types.py). Its style sheets hold the icons, as `data:`.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types default",
    )
)
_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Referrer-Policy": "no-referrer",
    # A browser keeps a file, and asks whether it has changed: the next version has other pages.
    "Cache-Control": "no-cache",
}
# No part of a name begins with a dot, so none leads out of the folder.
_NAME = re.compile(r"[\w@-][\w@.-]*(/[\w@-][\w@.-]*)*\Z", re.ASCII)
# Not looked up on the machine, which may know other ones. Any other file is shown as text.
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}


def register(app: Flask) -> None:
    """Add the site to the app."""
    app.add_url_rule("/help", "pages.help", _to_first_page, methods=["GET"])
    app.add_url_rule("/help/", "pages.help_first", _file, methods=["GET"])
    app.add_url_rule("/help/<path:name>", "pages.help_file", _file, methods=["GET"])


def _to_first_page() -> AnyResponse:
    """Links of the first page are relative to `/help/`."""
    query = request.query_string.decode("latin-1")
    return redirect(f"/help/?{query}" if query else "/help/")


def _file(name: str = FIRST_PAGE) -> AnyResponse:
    path = FOLDER / name
    if not (FOLDER / FIRST_PAGE).is_file():
        raise NotFound("the pages of help were not built", hint="`make docs` in a checkout builds them")
    if not _NAME.match(name) or not path.is_file():
        raise NotFound(f"there is no page {name[:200]!r} of help", hint="/help/ has the list of all pages")
    content = path.read_bytes()
    type = _TYPES.get(path.suffix, "text/plain; charset=utf-8")
    answer = Response(content, headers=_HEADERS, content_type=type)
    # Weak, because the same content may be packed on its way.
    answer.set_etag(hashlib.sha256(content).hexdigest()[:32], weak=True)
    return answer.make_conditional(request)
