"""Which requests the threads for pages answer."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from gunicorn.config import Config

from pipeweave.api.server.connection import ClientConnection
from pipeweave.api.ui import page_paths


@pytest.fixture
def connection() -> Iterator[ClientConnection]:
    ours, theirs = socket.socketpair()
    made = ClientConnection(Config(), ours, ("127.0.0.1", 1), ("127.0.0.1", 2))
    yield made
    made.sock.close()
    theirs.close()


@pytest.mark.parametrize(
    ("head", "is_page"),
    [
        ("GET /ui/shop/runs HTTP/1.1", True),
        ("GET /ui HTTP/1.1", True),
        ("HEAD /ui/ HTTP/1.1", True),
        ("GET HTTP://x:3000/ui/shop/runs HTTP/1.1", True),
        ("GET http://x/api/runs?next=/ui/ HTTP/1.1", False),
        ("GET /ui/shop/exports HTTP/1.1", True),
        ("GET /ui/shop/runs?next=/ui/shop/export/runs HTTP/1.1", True),
        # An export takes seconds, and pages must not wait for it.
        ("GET /ui/shop/export/runs?status=failed HTTP/1.1", False),
        ("POST /ui/shop/do/runs.cancel HTTP/1.1", False),
        ("GET /api/runs HTTP/1.1", False),
        ("GET /uihtml HTTP/1.1", False),
    ],
)
def test_pages_have_threads_of_their_own(connection: ClientConnection, head: str, is_page: bool) -> None:
    connection.add(head.encode() + b"\r\nHost: x\r\n\r\n")
    path = connection.read_path
    assert (path is not None and page_paths.is_page(path)) is is_page
