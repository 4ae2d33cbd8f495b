"""`pipeweave open`: a link that logs a browser in, and where it leads."""

from __future__ import annotations

import json
import webbrowser
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.stub_http_server import Served

from pipeweave.cli import main
from pipeweave.ids import RUN, new_id, show

Call = Callable[..., Result]
RUN_ID = show(RUN, new_id())


@pytest.fixture
def call(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call `open` in an empty folder, with the answering server as its orchestrator."""
    monkeypatch.chdir(tmp_path)
    made = {"path": "/ui/login#c0de", "code": "c0de", "expiresAt": "2026-11-20T12:00:00Z"}
    served.put("POST /api/sessions/links", (201, made))

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["open", *arguments, "--url", served.url, "--token", "t"])

    return call


def browser(monkeypatch: pytest.MonkeyPatch, *, is_there: bool) -> list[str]:
    """What a browser is asked to open from now on."""
    opened: list[str] = []

    def open_(link: str) -> bool:
        opened.append(link)
        return is_there

    monkeypatch.setattr(webbrowser, "open", open_)
    return opened


def test_a_browser_gets_the_code_and_the_terminal_does_not(
    call: Call, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = browser(monkeypatch, is_there=True)
    result = call()
    assert opened == [f"{served.url}/ui/login#c0de"]
    assert result.output == f"Opened {served.url}/ui/login\n"


def test_a_link_leads_to_a_run(call: Call, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = browser(monkeypatch, is_there=True)
    assert call(RUN_ID).exit_code == 0
    assert opened == [f"{served.url}/ui/login?next=/ui/r/{RUN_ID}#c0de"]


def test_without_a_browser_the_link_is_printed(
    call: Call, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser(monkeypatch, is_there=False)
    result = call()
    assert result.stdout == f"{served.url}/ui/login#c0de\n"
    assert "within a minute" in result.stderr


def test_a_link_can_be_printed_only(call: Call, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = browser(monkeypatch, is_there=True)
    assert call("--print").stdout == f"{served.url}/ui/login#c0de\n"
    assert json.loads(call("--json").stdout) == {"url": f"{served.url}/ui/login#c0de"}
    assert opened == []
