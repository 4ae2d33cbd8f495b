"""Fixtures of the tests of `up`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.stand_in_processes import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    try:
        yield stage
    finally:
        stage.stop()
