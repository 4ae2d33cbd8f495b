"""Fixtures of unit tests: nothing that has to be started for longer than a moment."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.stub_http_server import Served, serving


@pytest.fixture
def served() -> Iterator[Served]:
    """An HTTP server on a free port that answers what the test puts there."""
    with serving() as here:
        yield here
