"""The client goes on with an export that breaks off, and hands out each row once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from support.stub_http_server import Served

from pipeweave import Client, errors
from pipeweave.client import exports

Line = dict[str, Any]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    return Client("http://127.0.0.1:9", "t")


def answering(client: Client, monkeypatch: pytest.MonkeyPatch, *answers: list[Line | Exception]) -> list[Any]:
    """Let the client get these lines, answer after answer; the cursors that it asks with."""
    asked: list[Any] = []
    waiting = list(answers)

    def lines(path: str, query: dict[str, Any]) -> Iterator[bytes]:
        asked.append(query.get("after"))
        for each in waiting.pop(0):
            if isinstance(each, Exception):
                raise each
            yield orjson.dumps(each)

    monkeypatch.setattr(client._http, "lines", lines)
    return asked


def test_it_goes_on_after_the_last_cursor_and_drops_what_came_behind_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = answering(
        client,
        monkeypatch,
        [{"n": 1}, {"n": 2}, {"cursor": "c2", "rows": 2}, {"n": 3}, errors.Unavailable("gone")],
        [errors.TooManyRequests("later")],
        [{"n": 3}, {"cursor": "c3", "rows": 1}, {"n": 4}],
        [{"n": 4}, {"cursor": "c4", "rows": 1, "isComplete": False}],
        [{"cursor": "c4", "rows": 0, "isComplete": False, "error": {"code": "BUSY", "detail": "busy"}}],
        [{"n": 5}, {"cursor": "c5", "rows": 1}, {"cursor": "c5", "rows": 1, "isComplete": True}],
    )
    assert [each["n"] for each in client.export("events", run="prun_1")] == [1, 2, 3, 4, 5]
    assert asked == [None, "c2", "c2", "c3", "c4", "c4"]


def test_it_gives_up_when_it_gets_nowhere(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    gone: list[list[Line | Exception]] = [[errors.Unavailable("gone")] for _ in range(exports.TRIES)]
    asked = answering(client, monkeypatch, *gone)
    with pytest.raises(errors.Unavailable):
        list(client.export("runs"))
    assert len(asked) == exports.TRIES


def test_an_answer_without_a_cursor_is_no_progress(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(client, monkeypatch, *[[{"n": 1}] for _ in range(exports.TRIES)])
    with pytest.raises(errors.Unavailable, match="does not go on"):
        list(client.export("runs"))
    assert len(asked) == exports.TRIES


def test_a_filter_with_several_values_is_sent_several_times(served: Served) -> None:
    asked = "GET /api/export/runs?status=failed&status=partial&text=no+space&standalone=false"
    served.put(asked, (200, b'{"id":"prun_1"}\n{"cursor":"c1","rows":1,"isComplete":true}\n'))
    client = Client(served.url, "t")
    filters = {"status": ["failed", "partial"], "text": "no space", "standalone": False}
    assert list(client.export("runs", **filters)) == [{"id": "prun_1"}]


def test_an_unknown_kind_is_refused_before_anything_is_asked(client: Client) -> None:
    with pytest.raises(errors.InvalidInput, match="no export of 'steps'"):
        list(client.export("steps"))


@pytest.mark.parametrize(
    "end",
    [
        [],
        [{"cursor": "", "rows": 2, "isComplete": False}],
        [{"cursor": "", "rows": 2, "error": {"detail": "x"}}],
    ],
    ids=["no end", "not complete", "an error"],
)
def test_an_export_of_a_tenant_that_breaks_off_is_not_gone_on_with(
    client: Client, monkeypatch: pytest.MonkeyPatch, end: list[Line | Exception]
) -> None:
    asked = answering(client, monkeypatch, [{"n": 1}, {"cursor": "", "rows": 1}, {"n": 2}, *end])
    with pytest.raises(errors.Unavailable, match="broke off"):
        list(client.export_tenant("shop"))
    assert len(asked) == 1
