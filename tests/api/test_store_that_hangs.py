"""Requests beside a store that answers nothing: those that need it leave threads to the others."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import urllib3
from support.api_samples import SERVICE, TENANT
from support.api_server import running_api
from support.odd_store import OddStore, odd_store

from pipeweave.api.serve import THREADS
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.runs import service_registration
from pipeweave.orchestrator.security import access_tokens
from pipeweave.settings import Settings
from pipeweave.size_limits import INLINE_BYTES

if TYPE_CHECKING:
    pass

SMALL = {"taskId": "count", "input": {"path": "a"}}
LARGE = {"taskId": "count", "input": {"path": "x" * INLINE_BYTES}}


@pytest.fixture
def store() -> Iterator[OddStore]:
    with odd_store("hang") as made:
        yield made


@pytest.fixture
def ask(store: OddStore, fresh_database_url: str, broker_url: str, tmp_path: Path) -> Iterator[Any]:
    """Queues a task over the API; the status of the answer."""
    settings = Settings(
        database_url=fresh_database_url,
        broker_url=broker_url,
        data_dir=str(tmp_path),
        storage_backends=(store.entry,),
    )
    deployment = Deployment.open(settings, pool_size=1)
    with deployment.database.transaction() as tx:
        service_registration.register(tx, TENANT, SERVICE)
        token = access_tokens.create_token(
            tx, name="test", tenants=[TENANT], scopes=[access_tokens.READ, access_tokens.WRITE]
        )
    headers = {"Authorization": f"Bearer {token}", "X-Tenant": TENANT, "Content-Type": "application/json"}
    with running_api(settings, tmp_path) as api:

        def queue(wish: Any) -> int:
            url = f"{api.url}/api/queue/task"
            return urllib3.request(
                "POST", url, body=orjson.dumps(wish), headers=headers, retries=False, timeout=60
            ).status

        yield queue
    deployment.close()


def test_small_requests_are_answered_while_large_ones_wait_for_the_store(ask: Any, store: OddStore) -> None:
    assert ask(SMALL) == 200
    with ThreadPoolExecutor(2 * THREADS) as clients:
        large = [clients.submit(ask, LARGE) for _ in range(2 * THREADS)]
        assert store.came.acquire(timeout=60)
        waiting = [each for each in large if not each.done()]
        assert ask(SMALL) == 200
        assert any(not each.done() for each in waiting), "who needs no store waited as long as who needs it"
        assert {each.result() for each in large} == {503}
    # The others were refused without asking it; a probe connects now and then.
    assert store.requests.count("PUT") + store.requests.count("HEAD") <= THREADS
    assert ask(SMALL) == 200
