"""What a worker does not load: each module costs memory in every one of its processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

NOT_NEEDED = (
    # Read models and documents are of the API; archives, which beat writes, need them, too.
    "pipeweave.orchestrator.reading",
    "pipeweave.orchestrator.documents",
    "pipeweave.workers.loops",
    # What reads bundles and checks their signatures: a worker of bundles loads it when it starts.
    "pipeweave.bundles.bundle",
    "cryptography.hazmat",
    # Tasks with type hints load it, before children are forked.
    "pydantic",
)

# Of migrations only.
OF_MIGRATIONS = ("sqlalchemy", "alembic", "mako")


def _loaded(imports: str, names: tuple[str, ...]) -> str:
    """Which of these modules a process has loaded after it has imported others."""
    script = f"import sys\n{imports}\nprint([each for each in {names!r} if each in sys.modules])"
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    return answer.stdout.strip()


def test_a_worker_loads_nothing_of_beat_and_the_api() -> None:
    assert _loaded("import pipeweave.workers.process.launch", NOT_NEEDED) == "[]"


@pytest.mark.parametrize(
    "module", ["pipeweave.workers.process.launch", "pipeweave.workers.loops", "pipeweave.api.serve"]
)
def test_nothing_that_runs_loads_what_only_migrations_need(module: str) -> None:
    opening = "from pipeweave.orchestrator.store import Database; Database('postgresql://u@h/d')"
    assert _loaded(f"import {module}; {opening}", OF_MIGRATIONS) == "[]"
