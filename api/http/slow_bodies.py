"""Lets a large body take longer to arrive than the bodies of other requests."""

from __future__ import annotations

from flask import Request


def allow_time(request: Request) -> None:
    """Give the body of a request the time of a large one. Only the server that serves this app knows of that;
    another one has its own limits.
    """
    if take_longer := getattr(request.environ.get("wsgi.input"), "take_longer", None):
        take_longer()
