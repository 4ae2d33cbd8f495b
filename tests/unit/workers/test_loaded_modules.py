"""What a worker does not load: each module costs memory in every one of its processes."""

from __future__ import annotations

import subprocess
import sys

# Read models and documents are of the API; archives, which beat writes, need them, too.
NOT_NEEDED = ("pipeweave.orchestrator.reading", "pipeweave.orchestrator.documents", "pipeweave.workers.loops")


def test_a_worker_loads_nothing_of_beat_and_the_api() -> None:
    script = (
        "import sys, pipeweave.workers.process.launch\n"
        f"print([each for each in {NOT_NEEDED!r} if each in sys.modules])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert answer.stdout.strip() == "[]"
