"""`pipeweave docs`: where the pages of help are, and what is searched for in them."""

from __future__ import annotations

import json
import webbrowser
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pipeweave.cli import main

Call = Callable[..., Result]
URL = "http://127.0.0.1:3000"


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call `docs` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(main, ["docs", *arguments])


def browser(monkeypatch: pytest.MonkeyPatch, *, is_there: bool) -> list[str]:
    """What a browser is asked to open from now on."""
    opened: list[str] = []

    def open_(link: str) -> bool:
        opened.append(link)
        return is_there

    monkeypatch.setattr(webbrowser, "open", open_)
    return opened


def test_it_opens_the_first_page(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = browser(monkeypatch, is_there=True)
    assert call("--url", f"{URL}/").output == f"Opened {URL}/help/\n"
    assert opened == [f"{URL}/help/"]


def test_words_are_searched_for(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = browser(monkeypatch, is_there=True)
    assert call("dead", "letters & more", "--url", URL).exit_code == 0
    assert opened == [f"{URL}/help/?q=dead+letters+%26+more"]


def test_the_address_can_be_printed_only(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = browser(monkeypatch, is_there=True)
    assert call("--print", "--url", URL).output == f"{URL}/help/\n"
    assert json.loads(call("waits", "--json", "--url", URL).output) == {"url": f"{URL}/help/?q=waits"}
    assert opened == []


def test_without_a_browser_the_address_is_printed(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    browser(monkeypatch, is_there=False)
    assert call("--url", URL).output == f"{URL}/help/\n"


def test_it_needs_an_orchestrator(call: Call) -> None:
    result = call()
    assert result.exit_code == 1
    assert "no orchestrator is configured" in result.output
