"""Fixtures of the tests of adapters."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.actions import access

from pipeweave.workers.consumer.deployment_access import DeploymentAccess


@pytest.fixture
def here(tmp_path: Path) -> DeploymentAccess:
    """A deployment that may reach this machine."""
    return access(tmp_path, "loopback")
