"""An HTTP worker needs the extra `http` alone."""

from __future__ import annotations

import subprocess
import sys

# What the extras `worker` and `server` bring.
OTHERS = {"celery", "kombu", "sqlalchemy", "psycopg2", "alembic", "flask", "redis", "boto3"}


def test_it_loads_nothing_of_celery_or_postgresql() -> None:
    program = "from pipeweave import HttpWorker; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not OTHERS & set(done.stdout.split())


def test_the_name_is_loaded_on_demand() -> None:
    program = "import pipeweave, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pipeweave.http_worker" not in done.stdout.split()
