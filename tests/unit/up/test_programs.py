"""What `pipeweave up` starts its processes with."""

from __future__ import annotations

from pathlib import Path

from pipeweave.up.folder import DataFolder, Secrets
from pipeweave.up.options import UpOptions
from pipeweave.up.processes import ProcessSpec
from pipeweave.up.programs import Programs


def worker_of(folder: Path) -> ProcessSpec:
    options = UpOptions(folder, "127.0.0.1", 3000, workers=1, concurrency=2, apps=("tasks.py",), tenant="t")
    secrets = Secrets("a", "b", "c", "d", "e", postgres_port=1, valkey_port=2, flower_port=3)
    return Programs(options, DataFolder(folder), secrets).worker(1, lambda: True)


def test_a_worker_runs_the_built_in_adapters_beside_the_tasks(tmp_path: Path) -> None:
    words = worker_of(tmp_path).launch().argv
    assert "--adapters" in words
    assert [words[at + 1] for at, word in enumerate(words) if word == "--app"] == ["tasks.py"]


def test_a_worker_gives_back_what_runs_before_it_is_killed(tmp_path: Path) -> None:
    worker = worker_of(tmp_path)
    words = worker.launch().argv
    assert float(words[words.index("--grace") + 1]) < worker.grace_s
