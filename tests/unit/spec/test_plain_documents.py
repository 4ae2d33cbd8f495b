"""Documents without conditions, choices and the like keep the hashes that they had before there were any.

`plain_documents.json` has documents of tests and examples with the hashes that an earlier reader gave them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.pages import ROOT, blocks

from pipeweave.spec import parse_spec

KNOWN: list[dict[str, Any]] = json.loads((Path(__file__).parent / "plain_documents.json").read_text())
NEW_KEYS = {"condition", "join", "retry", "timeout", "timeoutMs", "continueOnError", "onExhausted"}


@pytest.mark.parametrize("known", KNOWN, ids=[str(place) for place in range(len(KNOWN))])
def test_a_plain_document_keeps_its_hash(known: dict[str, Any]) -> None:
    spec = parse_spec(known["document"])
    assert spec.written_hash == known["specHash"]
    assert all(each.has_task and not NEW_KEYS & each.to_json().keys() for each in spec.steps)


def test_the_documents_of_the_pages_are_read() -> None:
    pages = [ROOT / "docs/tasks-and-pipelines.md", ROOT / "docs/flows.md"]
    read = [yaml.safe_load(block) for page in pages for block in blocks(page, "yaml")]
    documents = [each for each in read if isinstance(each, dict) and "steps" in each]
    assert len(documents) > 5
    for document in documents:
        assert parse_spec(parse_spec(document).to_json()) == parse_spec(document)
