"""Values in a folder: who may read them, and what happens when the disk cannot be written to."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pipeweave.errors import Unavailable
from pipeweave.storage.local import LocalStorage


def test_a_full_disk_is_unavailable_and_keeps_no_half_written_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Unavailable, match="No space left"):
        LocalStorage(tmp_path).put("a/b", b"content")
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == []


def test_a_file_in_the_way_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    store = LocalStorage(tmp_path)
    for use in (lambda: store.put("a/b", b""), lambda: store.get("a/b"), lambda: store.delete("a/b")):
        with pytest.raises(Unavailable):
            use()


def test_nobody_else_may_read_a_stored_value(tmp_path: Path) -> None:
    root = tmp_path / "data" / "storage"
    usual = os.umask(0)
    try:
        LocalStorage(root).put("runs/ab/input", b"secret")
    finally:
        os.umask(usual)
    created = [tmp_path / "data", *(tmp_path / "data").rglob("*")]
    assert {(each.is_dir(), oct(each.stat().st_mode & 0o777)) for each in created} == {
        *((True, "0o700"), (False, "0o600"))
    }
