"""What a browser may do with the dashboard's answers."""

from __future__ import annotations

from flask import Flask, Response

from pipeweave.api.http.application import current_request
from pipeweave.api.ui.view import ROOT

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types pipeweave",
    )
)
_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


def register(app: Flask) -> None:
    """Make the app add the headers to every answer of the dashboard, unless the answer has its own.

    Redirects, refused methods and errors before a screen is found are answers, too, so no view adds them.
    """
    app.after_request(_protect)


def _protect(answer: Response) -> Response:
    path = current_request().path
    if path in ("/", ROOT) or path.startswith(f"{ROOT}/"):
        for name, value in _HEADERS.items():
            answer.headers.setdefault(name, value)
    return answer
