"""One client opens many streams, and others still get theirs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import orjson
import pytest
from support.api_samples import OTHER_TENANT, TENANT
from support.api_server import Server, running_api
from support.servers import wait_until
from support.stream_reader import StreamReader, streaming

from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.security.access_tokens import READ

if TYPE_CHECKING:
    from conftest import Tokens

MOST = 8


@pytest.fixture(scope="module")
def server(deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = replace(deployment.settings, stream_limit=MOST)
    with running_api(settings, tmp_path_factory.mktemp("shares")) as server:
        yield server


@pytest.mark.parametrize("path", ["/api/stream?types=run", "/api/live?view=/runs"])
def test_one_token_does_not_take_the_streams_of_others(server: Server, tokens: Tokens, path: str) -> None:
    greedy, colleague, stranger = tokens.make(READ), tokens.make(READ), tokens.make(READ)
    neighbour = tokens.make(READ, tenants=(OTHER_TENANT,))
    with ExitStack() as stack:

        def open_one(token: str, tenant: str = TENANT) -> StreamReader:
            return stack.enter_context(streaming(server.url, path, token, tenant))

        first = [open_one(greedy) for _ in range(MOST // 2)]
        assert [each.status for each in first] == [200] * (MOST // 2)
        refused = open_one(greedy)
        assert refused.status == 503
        assert b"\r\nRetry-After: " in refused.head
        length = int(refused.head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        problem = orjson.loads(refused.exactly(length))
        assert problem["code"] == "TOO_MANY_STREAMS"
        assert problem["detail"].startswith("this token has 4 of the 8 streams of this process, its share")
        assert "STREAM_LIMIT" in problem["hint"]
        assert [open_one(each).status for each in (colleague, colleague)] == [200, 200]
        assert open_one(stranger).status == 503, "the tenant has its share"
        assert open_one(neighbour, OTHER_TENANT).status == 200
        # Whoever closes one may open another.
        first[0].client.close()
        wait_until(lambda: open_one(stranger).status == 200, 30, what="no place became free")
