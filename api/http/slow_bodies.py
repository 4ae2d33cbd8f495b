"""Tells the server that serves this app for whose bodies, and for how long, a thread may wait."""

from __future__ import annotations

from flask import Request


def allow_time(request: Request) -> None:
    """Give the body of a request the time of a large one. Only the server that serves this app knows of that;
    another one has its own limits.
    """
    _tell(request, "take_longer")


def trust(request: Request) -> None:
    """Let a thread wait for the body of a request whose sender is known."""
    _tell(request, "trust")


def _tell(request: Request, what: str) -> None:
    if tell := getattr(request.environ.get("wsgi.input"), what, None):
        tell()
