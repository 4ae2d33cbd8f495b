"""`python -m sql_pages`: writes docs/sql/ with a PostgreSQL of its own."""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path

from benchmarks.processes import running
from pipeweave.orchestrator.deployment import migrate
from pipeweave.orchestrator.store.database import Database
from pipeweave.up import postgres
from pipeweave.up.ports import free_port
from pipeweave.up.postgres import Postgres
from sql_pages.pages import FOLDER, pages, write


def main() -> None:
    """Write the list and the pages."""
    with tempfile.TemporaryDirectory(prefix="pipeweave-sql-") as folder:
        passwords = secrets.token_hex(16), secrets.token_hex(16)
        server = Postgres(Path(folder) / "postgres", free_port(), *passwords, is_durable=False)
        server.prepare()
        log = Path(folder) / "postgres.log"
        with running(server.launch(), log, server.is_ready, postgres.STOP_SIGNAL):
            migrate.upgrade(server.url)
            database = Database(server.url, pool_size=0)
            made = pages(database)
            database.dispose()
    write(made)
    print(f"{len(made)} files in {FOLDER}")


if __name__ == "__main__":
    main()
