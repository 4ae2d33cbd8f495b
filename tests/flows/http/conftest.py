"""A stack with a worker, the API and a token for HTTP workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.api_server import Server, running_api
from support.live_stack import SECRET_KEY, LiveStack, StackMaker

from pipeweave.orchestrator.security import access_tokens
from pipeweave.orchestrator.security.access_tokens import WORKER


@pytest.fixture(scope="package")
def http_stack(make_stack: StackMaker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStack]:
    """A stack with a worker and a beat, for all modules of this folder that break neither."""
    with make_stack(tmp_path_factory.mktemp("http-stack")) as shared:
        shared.start_worker("steps.py", concurrency=2)
        shared.start_beat()
        yield shared


@pytest.fixture(scope="package")
def api(http_stack: LiveStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The API of that stack."""
    with running_api(http_stack.settings, tmp_path_factory.mktemp("http-api")) as server:
        yield server


@pytest.fixture(scope="package")
def orchestrator_url(http_stack: LiveStack, api: Server) -> str:
    """What an HTTP worker that can send no headers has as its `orchestratorUrl`."""
    tenant = http_stack.settings.tenant
    with http_stack.deployment.database.transaction() as tx:
        token = access_tokens.create_token(tx, name="worker", tenants=[tenant], scopes=[WORKER])
    return f"{api.url}/w/{tenant}/{token}"


@pytest.fixture(scope="session")
def secret() -> str:
    """The secret that workers share with the deployment."""
    return SECRET_KEY


@pytest.fixture(scope="module")
def crashing(make_stack: StackMaker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStack]:
    """A stack of this module alone with a beat; each test starts the worker that it kills."""
    with make_stack(tmp_path_factory.mktemp("crashing")) as own:
        own.start_beat()
        yield own


@pytest.fixture(scope="module")
def crashing_api(crashing: LiveStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_api(crashing.settings, tmp_path_factory.mktemp("crashing-api")) as server:
        yield server


@pytest.fixture
def stack(crashing: LiveStack) -> Iterator[LiveStack]:
    yield crashing
    crashing.reset()


@pytest.fixture
def url(crashing: LiveStack, crashing_api: Server) -> str:
    tenant = crashing.settings.tenant
    with crashing.deployment.database.transaction() as tx:
        token = access_tokens.create_token(tx, name="worker", tenants=[tenant], scopes=[WORKER])
    return f"{crashing_api.url}/w/{tenant}/{token}"
