"""Ten thousand tabs' worth of requests: each is answered clearly, little is computed, and work goes on."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
import urllib3
from support.api_samples import TENANT
from support.api_server import Server, running_api
from support.sent_statements import sent_statements
from support.servers import wait_until

from pipeweave.api.server.page_threads import MOST
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.orchestrator.security.access_tokens import READ, WRITE
from pipeweave.orchestrator.stream.pace import LEAST_S

if TYPE_CHECKING:
    from conftest import Api, Tokens

PATHS = ("/runs", "/runs?status=failed", "/runs?status=running", "/workers", "/tasks")
# More than may wait; each asks again as soon as it is answered.
TABS = MOST + 40
REQUESTS = 300
TRIGGERS = 5


@pytest.fixture(scope="module")
def server(deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_api(deployment.settings, tmp_path_factory.mktemp("flooded")) as server:
        yield server


def test_many_looks_cost_few_statements(reader: Api) -> None:
    tags: dict[str, str] = {}
    answers: Counter[int] = Counter()
    began = time.monotonic()
    # Beside this thread, chores of earlier ticks may still be under way.
    with sent_statements(of_all_threads=False) as sent:
        for number in range(REQUESTS):
            path = PATHS[number % len(PATHS)]
            headers = {**reader.headers, "X-PipeWeave-Fragment": "main", "If-None-Match": tags.get(path, "")}
            answer = reader.http.get(f"/ui/{TENANT}{path}", headers=headers)
            answers[answer.status_code] += 1
            tags[path] = answer.headers.get("ETag", tags.get(path, ""))
    took = time.monotonic() - began
    assert answers.keys() <= {200, 304}
    assert answers[304] > answers[200]
    # Each page at most every half second, however often it is asked for; and the token every two seconds.
    computed = len(PATHS) * (1 + 2 * took / LEAST_S)
    assert len(sent) <= 4 * computed + took + 2, len(sent)


@dataclass
class Flood:
    """Tabs that reload as fast as they are answered."""

    url: str
    token: str
    answers: Counter[int] = field(default_factory=Counter)
    without_time: int = 0
    _is_over: threading.Event = field(default_factory=threading.Event)

    def ask(self, pool: urllib3.HTTPConnectionPool, number: int) -> None:
        # Whole pages: kept fragments are answered faster than these tabs can ask for them.
        headers = {"Authorization": f"Bearer {self.token}"}
        path = f"/ui/{TENANT}{PATHS[number % len(PATHS)]}"
        while not self._is_over.is_set():
            answer = pool.request("GET", path, headers=headers, retries=False)
            self.answers[answer.status] += 1
            if answer.status == 429:
                self.without_time += "Retry-After" not in answer.headers
                assert answer.json()["code"] == "TOO_MANY_REQUESTS"

    @contextmanager
    def running(self) -> Iterator[None]:
        pool = urllib3.connection_from_url(self.url, maxsize=TABS)
        with ThreadPoolExecutor(TABS) as tabs:
            asked = [tabs.submit(self.ask, pool, number) for number in range(TABS)]
            try:
                yield
            finally:
                self._is_over.set()
        for each in asked:
            each.result()


def test_a_flood_of_pages_is_refused_in_part_while_runs_are_triggered(
    server: Server, tokens: Tokens, pipeline: str
) -> None:
    flood = Flood(server.url, tokens.make(READ))
    headers = {"Authorization": f"Bearer {tokens.make(READ, WRITE)}", "X-Tenant": TENANT}

    def api(method: str, path: str, **more: Any) -> urllib3.BaseHTTPResponse:
        return urllib3.request(method, server.url + path, headers=headers, retries=False, **more)

    with flood.running():
        wait_until(lambda: flood.answers[200] and flood.answers[429], 60, what=str(flood.answers))
        passed = [flood.answers[200]]
        for _ in range(TRIGGERS):
            answer = api("POST", f"/api/pipelines/{pipeline}/trigger", json={})
            assert answer.status in (200, 201, 202), answer.data
            passed.append(flood.answers[200])
    # In one line with the pages, each of them would have stood behind all that wait.
    assert min(after - before for before, after in pairwise(passed)) < MOST / 2
    assert flood.answers.keys() == {200, 429}
    assert flood.without_time == 0
    assert api("GET", f"/ui/{TENANT}/runs").status == 200
