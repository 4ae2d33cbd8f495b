"""`pipeweave audit` and `pipeweave tenant`: what they ask, what they print, how they end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.stub_http_server import Served

from pipeweave.cli import main

Call = Callable[..., Result]

AT = "2026-11-20T12:00:00.000Z"
ENTRY: dict[str, Any] = {"id": "aud_1", "at": AT, "tenant": "default", "source": "token", "actor": "alice"}
ENTRY |= {"verb": "tasks.pause", "kind": "task", "object": "resize", "reason": "full disk"}
ENTRY |= {"before": {"pausedAt": None, "owner": "bob"}, "after": {"pausedAt": AT}}
SHOP: dict[str, Any] = {"id": "shop", "createdAt": AT, "maxActiveRuns": 50, "activeRuns": 3}
SHOP |= {"pendingRuns": 0, "pausedAt": AT, "pauseReason": "stocktaking"}


@pytest.fixture
def call(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call a command in an empty folder, with the answering server as its orchestrator."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(main, [*arguments, "--url", served.url, "--token", "t"])

    return call


def test_the_audit_is_listed_with_what_changed(call: Call, served: Served) -> None:
    answer = {"entries": [ENTRY], "nextCursor": "abc"}
    served.put("GET /api/audit?limit=20&actor=alice&verb=tasks.pause", (200, answer))
    result = call("audit", "--actor", "alice", "--verb", "tasks.pause")
    assert result.exit_code == 0, result.output
    _, row = result.stdout.splitlines()
    assert "alice" in row and "task resize" in row and "full disk" in row
    assert f"owner=none, pausedAt={AT}" in row
    assert result.stderr == "More: --cursor abc\n"
    as_json = json.loads(call("audit", "--actor", "alice", "--verb", "tasks.pause", "--json").stdout)
    assert as_json == answer


def test_ages_become_times_and_an_empty_audit_says_so(call: Call, served: Served) -> None:
    served.put("GET /api/audit?limit=20", (200, {"entries": [], "nextCursor": None}))
    assert call("audit").stdout == "Nobody has changed anything yet.\n"
    path = "GET /api/audit?limit=5&since=2026-11-20T10%3A00%3A00Z"
    served.put(path, (200, {"entries": [], "nextCursor": None}))
    assert call("audit", "-n", "5", "--since", "2026-11-20T12:00:00+02:00").stdout == "Nothing matches.\n"


def test_all_rows_are_written_as_lines(call: Call, served: Served) -> None:
    end = {"cursor": "c1", "rows": 1, "isComplete": True}
    content = b"".join(json.dumps(each).encode().replace(b'": ', b'":') + b"\n" for each in (ENTRY, end))
    served.put("GET /api/export/audit?object=resize", (200, content))
    result = call("audit", "--object", "resize", "--ndjson")
    assert [json.loads(each) for each in result.stdout.splitlines()] == [ENTRY]
    assert result.stderr == "1 rows exported\n"


def test_a_refusal_is_one_line(call: Call, served: Served) -> None:
    problem = {"status": 403, "code": "FORBIDDEN", "title": "Forbidden", "detail": "the token lacks a scope"}
    served.put("GET /api/audit?limit=20", (403, problem))
    result = call("audit")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "pipeweave: FORBIDDEN: the token lacks a scope\n"


def test_tenants_are_listed_and_one_is_shown(call: Call, served: Served) -> None:
    listed = [{"id": "default", "createdAt": AT, "maxActiveRuns": None}, SHOP]
    served.put("GET /api/tenants", (200, {"tenants": listed, "nextCursor": None}))
    _, first, second = call("tenant").stdout.splitlines()
    assert first.split()[:2] == ["default", "unlimited"] and second.split()[:2] == ["shop", "50"]
    served.put("GET /api/tenants/shop", (200, SHOP))
    shown = call("tenant", "show", "shop").stdout
    assert "stocktaking" in shown and "50" in shown
    assert json.loads(call("tenant", "show", "shop", "--json").stdout) == SHOP


@pytest.mark.parametrize(
    ("given", "sent"), [(("--max-active-runs", "50"), {"maxActiveRuns": 50}), (("--none",), {})]
)
def test_a_tenant_is_limited(call: Call, served: Served, given: tuple[str, ...], sent: Any) -> None:
    served.put("PUT /api/tenants/shop", (200, SHOP))
    served.put("GET /api/tenants/shop", (200, SHOP))
    assert call("tenant", "limit", "shop", *given).exit_code == 0
    assert served.asked[0][2] == sent


@pytest.mark.parametrize("given", [(), ("--none", "--max-active-runs", "2")])
def test_a_limit_is_given_once(call: Call, given: tuple[str, ...]) -> None:
    result = call("tenant", "limit", "shop", *given)
    assert result.exit_code == 2
    assert "one of them" in result.stderr
