"""The role that docker-compose.yml makes for PipeWeave owns its database and can do nothing outside of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg2
import pytest
from psycopg2.errors import InsufficientPrivilege
from support.pages import ROOT
from support.servers import administer

from pipeweave.orchestrator.deployment import migrate
from pipeweave.up.binaries import postgres_programs
from pipeweave.up.postgres import Postgres

# The server of the tests has a role `pipeweave` already.
NAME = "composed"


@pytest.fixture
def url(postgres_server: Postgres) -> Iterator[str]:
    """The database that the script makes, as its role."""
    script = (ROOT / "docker/create-database.sh").read_text().replace("pipeweave", NAME)
    admin = urlsplit(postgres_server.admin_url)
    variables = {
        "PATH": f"{_folder_of_psql()}{os.pathsep}{os.environ['PATH']}",
        "PGHOST": str(admin.hostname),
        "PGPORT": str(admin.port),
        "PGPASSWORD": str(admin.password),
        "POSTGRES_USER": str(admin.username),
        "PIPEWEAVE_PASSWORD": "it's $ecret",
    }
    subprocess.run(["sh", "-c", script], env=variables, check=True, capture_output=True, timeout=60)
    yield f"postgresql://{NAME}:it's%20$ecret@{admin.hostname}:{admin.port}/{NAME}"
    administer(postgres_server, f"DROP DATABASE {NAME} WITH (FORCE)")
    administer(postgres_server, f"DROP ROLE {NAME}")


def _folder_of_psql() -> Path:
    shipped = postgres_programs(None).folder
    found = shutil.which("psql", path=f"{shipped}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip("there is no psql")
    return Path(found).parent


def test_the_role_can_migrate_and_cannot_reach_the_server(url: str) -> None:
    migrate.upgrade(url)
    with psycopg2.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT rolsuper OR rolcreaterole OR rolcreatedb FROM pg_roles WHERE rolname = %s", [NAME]
        )
        assert cursor.fetchone() == (False,)
        for statement in (
            "COPY (SELECT 1) TO PROGRAM 'true'",
            "SELECT pg_read_file('/etc/hostname')",
            "SELECT rolpassword FROM pg_authid",
        ):
            cursor.execute("SAVEPOINT before")
            with pytest.raises(InsufficientPrivilege):
                cursor.execute(statement)
            cursor.execute("ROLLBACK TO SAVEPOINT before")
    connection.close()
