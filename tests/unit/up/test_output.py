"""The logs of the processes of a stack."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from pipeweave.up import output
from pipeweave.up.output import Console, Output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that everybody may read, as one that was made by hand."""
    tmp_path.chmod(0o755)
    return tmp_path


def test_nobody_else_reads_a_log_or_what_it_was_rotated_to(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "FILE_BYTES", 100)
    before = os.umask(0o022)
    try:
        log = Output("worker", folder, Console(None))
        for number in range(20):
            log.write(f"line {number}, which is not short")
        log.close()
    finally:
        os.umask(before)
    found = {each.name: stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()}
    assert len(found) > 2 and set(found.values()) == {0o600}, found
