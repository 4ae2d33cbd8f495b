"""The proxy of HTTP services meddles as it is told, and otherwise passes on what it gets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import urllib3
from support.stub_http_server import Served, serving

from chaos.meddler import Meddler, Meddling


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as here:
        here.put("POST /tasks/a", (202, {"acknowledged": True}))
        yield here


@pytest.fixture
def meddler(served: Served) -> Iterator[Meddler]:
    made = Meddler(int(served.url.rpartition(":")[2]))
    yield made
    made.close()


def post(meddler: Meddler) -> urllib3.BaseHTTPResponse:
    url = f"http://127.0.0.1:{meddler.port}/tasks/a"
    return urllib3.request("POST", url, json={"runId": "x"}, retries=False, timeout=10)


def test_it_passes_requests_on(meddler: Meddler, served: Served) -> None:
    answer = post(meddler)
    assert (answer.status, answer.json()) == (202, {"acknowledged": True})
    [(request, _, body)] = served.asked
    assert (request, body) == ("POST /tasks/a", {"runId": "x"})


def test_it_doubles_requests(meddler: Meddler, served: Served) -> None:
    with meddler.meddling(Meddling(times=2)):
        assert post(meddler).status == 202
    assert len(served.asked) == 2
    assert meddler.requests == 1


@pytest.mark.parametrize("times", [0, 1])
def test_it_answers_with_errors(meddler: Meddler, served: Served, times: int) -> None:
    with meddler.meddling(Meddling(answer="error", times=times)):
        assert post(meddler).status == 500
    assert len(served.asked) == times


def test_it_answers_with_nonsense(meddler: Meddler, served: Served) -> None:
    with meddler.meddling(Meddling(answer="nonsense")), pytest.raises(urllib3.exceptions.HTTPError):
        post(meddler)
    assert len(served.asked) == 1


def test_it_is_as_away_as_what_it_stands_before(meddler: Meddler) -> None:
    meddler.target = 1
    with pytest.raises(urllib3.exceptions.HTTPError):
        post(meddler)
