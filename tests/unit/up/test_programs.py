"""What `pipeweave up` starts its processes with."""

from __future__ import annotations

from pathlib import Path

from pipeweave.up.folder import DataFolder, Secrets
from pipeweave.up.options import UpOptions
from pipeweave.up.programs import Programs


def test_a_worker_gives_back_what_runs_before_it_is_killed(tmp_path: Path) -> None:
    options = UpOptions(tmp_path, "127.0.0.1", 3000, workers=1, concurrency=2, apps=("tasks.py",), tenant="t")
    secrets = Secrets("a", "b", "c", "d", "e", postgres_port=1, valkey_port=2, flower_port=3)
    worker = Programs(options, DataFolder(tmp_path), secrets).worker(1, lambda: True)
    words = worker.launch().argv
    assert float(words[words.index("--grace") + 1]) < worker.grace_s
