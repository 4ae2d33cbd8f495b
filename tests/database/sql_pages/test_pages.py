"""docs/sql/ shows the statements that the code sends."""

from __future__ import annotations

import pytest

from pipeweave.orchestrator.store.database import Database
from sql_pages.pages import FOLDER, pages
from sql_pages.plans import MAJOR


@pytest.fixture
def made(fresh_database: Database) -> dict[str, str]:
    """The pages as the code wants them."""
    with fresh_database.reading() as tx:
        version = int(tx.execute("SHOW server_version_num").scalar_one()) // 10_000
    if version != MAJOR:
        pytest.skip(f"the pages show plans of PostgreSQL {MAJOR}, this is {version}")
    return pages(fresh_database)


def test_the_pages_are_those_that_the_code_makes(made: dict[str, str]) -> None:
    kept = {path.name: path.read_text() for path in FOLDER.glob("*.md")}
    assert sorted(kept) == sorted(made), "run `make sql`"
    differing = [name for name in made if kept[name] != made[name]]
    assert not differing, "run `make sql`"
