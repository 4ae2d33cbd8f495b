"""schemathesis against the running API finds nothing that the OpenAPI document does not say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.api_samples import SERVICE, SPEC, TENANT
from support.api_server import running_api
from support.pages import ROOT

from pipeweave.api.routes import ENDPOINTS
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.runs import service_registration
from pipeweave.orchestrator.security import access_tokens
from pipeweave.orchestrator.security.access_tokens import ADMIN
from pipeweave.orchestrator.store.database import Database
from pipeweave.settings import Settings
from pipeweave.spec.document import parse_spec

SCHEMATHESIS = Path(sys.executable).parent / "schemathesis"
HOOKS = ROOT / "tests" / "support" / "contract_hooks.py"
# Per operation, besides the cases that cover its schema systematically. About 60 s on two cores.
EXAMPLES = 3
# The longest test of all: on a busy machine it takes ten times as long (s).
DEADLINE_S = 3_600


@pytest.mark.timeout(DEADLINE_S)
def test_schemathesis_finds_nothing(fresh_database_url: str, fresh_broker_url: str, tmp_path: Path) -> None:
    # A database of its own: what schemathesis registers takes the place of what other tests rely on.
    settings = Settings(
        database_url=fresh_database_url,
        broker_url=fresh_broker_url,
        data_dir=str(tmp_path / "data"),
        secret_key="5e" * 32,
    )
    token = furnished(fresh_database_url)
    with running_api(settings, tmp_path) as server:
        argv = [
            *(str(SCHEMATHESIS), "--config-file", str(ROOT / "schemathesis.toml")),
            *("run", f"{server.url}/api/openapi.json", "--max-examples", str(EXAMPLES), "--seed", "1"),
            # An answer that is late on a busy machine is no answer that is wrong.
            *("--request-timeout", "120"),
            # To weigh what it warns of takes a sixth of its time, and fails nothing.
            *("--warnings", "off"),
            *("--header", f"Authorization: Bearer {token}", "--header", f"X-Tenant: {TENANT}"),
        ]
        variables = {**os.environ, "SCHEMATHESIS_HOOKS": str(HOOKS)}
        found = subprocess.run(argv, cwd=tmp_path, env=variables, capture_output=True, text=True)
        log = server.log.read_text()
    assert found.returncode == 0, found.stdout[-60_000:] + found.stderr[-2_000:]
    count = len(ENDPOINTS) - 1  # the document does not describe itself
    left_out = 6  # see schemathesis.toml
    assert f"{count - left_out} selected / {count} total" in found.stdout
    assert "Traceback" not in log, log[-5_000:]


def furnished(database_url: str) -> str:
    """Store a service and a pipeline; gives an administrator's token."""
    with Database(database_url, pool_size=0).transaction() as tx:
        service_registration.register(tx, TENANT, SERVICE)
        pipelines.store(tx, TENANT, parse_spec(SPEC, id="files"), source="api")
        return access_tokens.create_token(
            tx, name="contract", tenants=[access_tokens.EVERY_TENANT], scopes=[ADMIN]
        )
