"""Fixtures of the tests of adapters."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.actions import access

from pipeweave.workers.consumer.deployment_access import DeploymentAccess

SECRET = "Bearer 0123456789abcdef"


@pytest.fixture
def here(tmp_path: Path) -> DeploymentAccess:
    """A deployment that may reach this machine, and has a secret for it."""
    secrets = ({"name": "shop", "value": SECRET, "hosts": ["127.0.0.1"]},)
    return access(tmp_path, "loopback", adapter_secrets=secrets)
