"""The pages for people who come from other tools: their documents are right, and each is run by a test."""

from __future__ import annotations

from typing import Any

import pytest
from support.pages import ROOT
from support.stubbed_runs import documents_of

from pipeweave.spec import dry_run, parse_spec

DOCUMENTS: dict[str, Any] = documents_of("serverless-workflow") | documents_of("state-machines")
# The examples of Serverless Workflow that are about control: of the other ones, most are about calls.
EXAMPLES = 28


@pytest.mark.parametrize("id", DOCUMENTS)
def test_every_document_is_right_and_its_normal_form_parses_to_itself(id: str) -> None:
    spec = parse_spec(DOCUMENTS[id])
    assert parse_spec(spec.to_json()) == spec
    assert not dry_run(spec).warnings


@pytest.mark.parametrize("id", DOCUMENTS)
def test_every_document_is_run_by_a_test(id: str) -> None:
    tests = (ROOT / "tests/database/others").glob("test_*.py")
    assert any(f'"{id}"' in each.read_text() for each in tests)


def test_the_examples_of_serverless_workflow_are_all_there() -> None:
    assert len(documents_of("serverless-workflow")) == EXAMPLES
