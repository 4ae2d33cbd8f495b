"""The commands that `up` prints find its stack from the folder where they are typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeweave.cli.support.stack_folder import stack_command


def test_a_stack_of_another_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PIPEWEAVE_DATA_DIR", raising=False)
    assert stack_command("open", tmp_path / "a b") == f"pipeweave open --data-dir '{tmp_path}/a b'"
    assert stack_command("open", tmp_path / ".pipeweave") == "pipeweave open"
    monkeypatch.setenv("PIPEWEAVE_DATA_DIR", str(tmp_path / "a b"))
    assert stack_command("down", tmp_path / "a b") == "pipeweave down"
