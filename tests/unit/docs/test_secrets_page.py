"""The page of secrets says what the code does."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from support.pages import ROOT, blocks

from pipeweave import masking
from pipeweave.errors import SecretDenied, SecretNotFound
from pipeweave.secrets import CACHED_S
from pipeweave.secrets.provider import MAX_SECRET_BYTES
from pipeweave.settings import load
from pipeweave.settings.secret_sources import _MEMBERS
from pipeweave.spec import parse_spec

PAGE = ROOT / "docs/secrets.md"


@pytest.fixture(scope="module")
def text() -> str:
    return " ".join(PAGE.read_text().split())


def test_the_sources_on_the_page_are_read() -> None:
    [listed] = [each for each in blocks(PAGE, "json") if "provider" in each]
    assert [each["provider"] for each in load({"SECRETS": listed}).secrets] == list(_MEMBERS)
    source = next(each for each in re.findall(r"`(\{[^`]*\})`", " ".join(PAGE.read_text().split())))
    assert load({"SECRETS": f"[{source}]"}).secrets == (json.loads(source),)


def test_every_member_of_a_provider_is_on_the_page(text: str) -> None:
    for provider, members in _MEMBERS.items():
        row = next(each for each in PAGE.read_text().splitlines() if each.startswith(f"| `{provider}` |"))
        assert all(f"`{each}`" in row for each in members), provider


def test_the_document_and_the_programs_on_the_page_run() -> None:
    [document] = blocks(PAGE, "yaml")
    assert len(parse_spec(yaml.safe_load(document)).steps) == 2
    names: dict[str, Any] = {}
    for each in blocks(PAGE, "python"):
        exec(each, names)


def test_the_numbers_and_codes_on_the_page_are_those_of_the_code(text: str) -> None:
    assert f"at most {MAX_SECRET_BYTES:,} bytes" in text
    assert f"for {CACHED_S:g} s" in text
    assert f"fewer than {masking.MIN_CHARS} characters" in text
    assert all(f"`{each.code}`" in text for each in (SecretNotFound, SecretDenied))
