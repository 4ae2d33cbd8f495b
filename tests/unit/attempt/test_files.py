"""The folder of an attempt is made on first use, and is gone after the call, however that ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipeweave.attempt import Files, remove_left_behind
from pipeweave.attempt.asset_values import asset_bytes, asset_value
from pipeweave.attempt.temp_folders import TempFolder
from pipeweave.errors import CorruptValue, InvalidInput
from pipeweave.size_limits import MAX_ASSETS
from pipeweave.testing.local_files import LocalFiles


def test_nothing_is_made_before_it_is_used(tmp_path: Path) -> None:
    files = Files(LocalFiles(), tmp_path)
    files.close()
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_deleted_with_all_that_it_holds(tmp_path: Path) -> None:
    files = Files(LocalFiles(), tmp_path)
    (files.temp_dir / "a").mkdir()
    (files.temp_dir / "a" / "b").write_text("c")
    files.close()
    assert list(tmp_path.iterdir()) == []


def test_an_asset_of_the_attempt_itself_can_be_read(tmp_path: Path) -> None:
    files = Files(LocalFiles([{"a": (b"before", "text")}]), tmp_path)
    assert files.get("a") == "before"
    files.add("a", [1])
    assert (files.get("a"), files.get_path("a").read_bytes()) == ([1], b"[1]")
    files.close()


def test_a_file_is_copied_when_it_is_added(tmp_path: Path) -> None:
    files = Files(LocalFiles(), tmp_path / "own")
    (tmp_path / "a").write_text("first")
    files.add_path("a", tmp_path / "a")
    (tmp_path / "a").write_text("second")
    assert files.get("a") == b"first"
    files.close()


def test_a_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    files = Files(LocalFiles(), tmp_path)
    with pytest.raises(InvalidInput, match="No such file"):
        files.add_path("a", tmp_path / "missing")
    assert files.added == {}
    files.close()


def test_an_attempt_has_a_bounded_number_of_assets(tmp_path: Path) -> None:
    files = Files(LocalFiles(), tmp_path)
    for number in range(MAX_ASSETS):
        files.add(str(number), number)
    files.add("0", "again")
    with pytest.raises(InvalidInput, match="at most"):
        files.add("more", 1)
    files.close()


def test_a_value_is_stored_with_its_type() -> None:
    for value, stored in ((b"\0", (b"\0", "binary")), ("ä", ("ä".encode(), "text")), ([1], (b"[1]", "json"))):
        assert asset_bytes(value) == stored
        assert asset_value(*stored) == value


@pytest.mark.parametrize("value", [float("nan"), object(), {1: object()}, "\ud800"])
def test_what_is_neither_text_nor_bytes_nor_json_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput):
        asset_bytes(value)


def test_content_that_is_not_of_its_type_is_an_error() -> None:
    for type_ in ("json", "text"):
        with pytest.raises(CorruptValue):
            asset_value(b"\xff", type_)


def test_folders_of_killed_processes_are_removed_and_no_others(tmp_path: Path) -> None:
    killed = f"""
import os, signal
from pathlib import Path
from pipeweave.attempt.temp_folders import TempFolder
TempFolder(Path({str(tmp_path)!r}))
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", killed], check=False)
    mine = TempFolder(tmp_path)
    (tmp_path / "pipeweave-attempt-foreign").mkdir()
    assert remove_left_behind(tmp_path) == 1
    assert {each.name for each in tmp_path.iterdir()} == {mine.path.name, "pipeweave-attempt-foreign"}
    mine.remove()
