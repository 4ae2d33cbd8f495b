"""The event log is append-only: no statement of the product names it to change or delete an event."""

from __future__ import annotations

import re

import pytest
from support.source_tree import ROOT

CHANGES = re.compile(r"\b(UPDATE|DELETE\s+FROM|TRUNCATE|MERGE\s+INTO)\s+(ONLY\s+)?events\b", re.IGNORECASE)
FOLDERS = ("orchestrator", "migrations", "api", "workers", "pipeweave")


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_statement_changes_or_deletes_an_event(folder: str) -> None:
    sources = list((ROOT / folder).rglob("*.py"))
    assert sources
    assert [str(each.relative_to(ROOT)) for each in sources if CHANGES.search(each.read_text())] == []
