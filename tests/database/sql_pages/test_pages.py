"""docs/sql/ says what the statements that the code sends lock, write and read."""

from __future__ import annotations

import pytest

from pipeweave.orchestrator.store.database import Database
from sql_pages.pages import FOLDER, KEPT, pages
from sql_pages.plans import MAJOR


@pytest.fixture
def made(fresh_database: Database) -> dict[str, str]:
    """The pages as the code wants them."""
    with fresh_database.reading() as tx:
        version = int(tx.execute("SHOW server_version_num").scalar_one()) // 10_000
    if version != MAJOR:
        pytest.skip(f"the pages show plans of PostgreSQL {MAJOR}, this is {version}")
    return pages(fresh_database)


def test_the_files_that_are_kept_are_those_that_the_code_makes(made: dict[str, str]) -> None:
    differing = [name for name in KEPT if (FOLDER / name).read_text() != made[name]]
    assert not differing, "run `make sql`"


def test_each_room_has_a_page_with_its_statements(made: dict[str, str]) -> None:
    page = made["pages/dispatch.md"]
    sender = "- Sent by: `dispatch.reports.ReportReceiver._find`"
    assert f"{sender}\n- Reads: `task_runs_pkey`\n\n```sql\nSELECT " in page
