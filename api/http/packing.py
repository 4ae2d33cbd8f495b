"""Packs larger answers for clients that can unpack them: pages, and JSON of more than a kilobyte."""

from __future__ import annotations

import gzip

from flask import Flask, Request, Response

from pipeweave.api.http.application import current_request

# Shorter answers gain nothing (bytes). A higher level costs more time than it saves bytes.
LEAST = 1_024
LEVEL = 5
TYPES = ("text/html", "application/json", "image/svg+xml")


def register(app: Flask) -> None:
    """Make the app pack its answers to reading requests."""
    app.after_request(_pack)


def is_wanted(asking: Request, content: bytes) -> bool:
    """Whether this content is to be packed for who asks."""
    return len(content) >= LEAST and asking.accept_encodings["gzip"] > 0


def _pack(answer: Response) -> Response:
    # Answers to other methods may hold a new secret beside what the caller sent: packing would tell of it.
    request = current_request()
    if request.method != "GET" or answer.mimetype not in TYPES or answer.status_code != 200:
        return answer
    if answer.is_streamed or answer.direct_passthrough or "Content-Encoding" in answer.headers:
        return answer
    answer.vary.add("Accept-Encoding")
    content = answer.get_data()
    if is_wanted(request, content):
        answer.set_data(gzip.compress(content, LEVEL, mtime=0))
        answer.headers["Content-Encoding"] = "gzip"
    return answer
