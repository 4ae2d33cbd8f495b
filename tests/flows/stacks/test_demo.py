"""`pipeweave demo` on the real stack: it shows its report, and leaves nothing behind however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest
from support.cli_stack import StackFolder

from pipeweave.settings import environment

END_DEADLINE_S = 180


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """Where the demo makes its temporary folder."""
    folder = tmp_path / "temporary"
    folder.mkdir(mode=0o755)
    return folder


@pytest.fixture
def here(tmp_path: Path, temporary: Path) -> StackFolder:
    return StackFolder(tmp_path, variables={**environment(), "TMPDIR": str(temporary)})


def left_behind(folder: Path) -> list[str]:
    """Command lines of processes that speak of the folder."""
    lines = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if str(folder) in line:
            lines.append(line)
    return lines


def test_the_demo_shows_its_report_and_removes_everything(here: StackFolder, temporary: Path) -> None:
    done = here.call("demo", "--limit", "60")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "count  completed  60/60" in done.stdout
    assert "all of Python" in done.stdout
    assert "Next steps:" in done.stdout
    assert done.stdout.endswith("Everything is stopped and removed.\n")
    # What people are meant to look at afterwards.
    (pictures,) = temporary.iterdir()
    assert {each.name for each in pictures.iterdir()} == {"stdlib-report.svg", "stdlib-report-timeline.svg"}
    assert str(pictures / "stdlib-report.svg") in done.stdout
    assert left_behind(temporary) == []


@pytest.mark.parametrize(
    ("after", "number", "code"),
    [("Starting", signal.SIGINT, 130), ("count", signal.SIGTERM, 143)],
)
def test_an_interrupted_demo_leaves_nothing_behind(
    here: StackFolder, temporary: Path, after: str, number: signal.Signals, code: int
) -> None:
    process = here.begin("demo")
    assert process.stdout
    for line in process.stdout:
        if line.startswith(after):
            break
    os.kill(process.pid, number)
    rest = process.stdout.read()
    process.stdout.close()
    assert process.wait(END_DEADLINE_S) == code, rest
    assert "Traceback" not in rest
    assert list(temporary.iterdir()) == []
    assert left_behind(temporary) == []


def test_a_demo_that_is_kept_goes_on_until_it_is_stopped(here: StackFolder) -> None:
    done = here.call("demo", "--limit", "5", "--data-dir", "kept", "--keep")
    try:
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"pipeweave down --data-dir {here.folder / 'kept'}" in done.stdout
        shown = here.call("runs", "--data-dir", "kept", "--json")
        assert json.loads(shown.stdout)["runs"][0]["status"] == "completed"
    finally:
        stopped: subprocess.CompletedProcess[str] = here.call("down", "--data-dir", "kept")
    assert stopped.returncode == 0
    assert left_behind(here.folder / "kept") == []
