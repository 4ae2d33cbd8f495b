"""Values in a folder: who may read them, and what happens when the disk cannot be written to."""

from __future__ import annotations

import errno
import os
import threading
import time
from io import BytesIO
from pathlib import Path

import pytest
from support.counted_calls import counted_calls

from pipeweave.errors import InvalidInput, Unavailable
from pipeweave.storage.local import INCOMING, STALE_AFTER_S, LocalStorage


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


def test_a_link_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"secret")
    store = LocalStorage(tmp_path / "storage")
    store.put("a/b", b"1")
    (store.root / "folder").symlink_to(tmp_path / "outside")
    (store.root / "file").symlink_to(tmp_path / "outside" / "secret")
    for path in ("folder/secret", "file", "folder/new"):
        for use in (store.get, store.stat, store.delete, lambda each: store.put(each, b"")):
            with pytest.raises(InvalidInput):
                use(path)
    assert [each.path for each in store.list()] == ["a/b"]
    assert (tmp_path / "outside" / "secret").read_bytes() == b"secret"


def test_a_link_to_a_folder_of_the_storage_leads_there(tmp_path: Path) -> None:
    store = LocalStorage(tmp_path)
    store.put("a/b", b"1")
    (tmp_path / "c").symlink_to(tmp_path / "a")
    store.put("c/d", b"2")
    assert (store.get("c/b"), store.get("a/d")) == (b"1", b"2")


def test_a_small_object_costs_few_calls_of_functions(tmp_path: Path) -> None:
    """A dispatch waits for it."""
    store = LocalStorage(tmp_path)
    store.put("runs/a/outputs/first", b"1")
    with counted_calls() as calls:
        store.put("runs/a/outputs/second", b"2", is_durable=False)
    assert calls.total() <= 40, calls


def test_what_is_being_written_is_no_object(tmp_path: Path) -> None:
    store = LocalStorage(tmp_path)
    store.put("a", b"1")
    (tmp_path / INCOMING / "half").write_bytes(b"x")
    assert [each.path for each in store.list()] == ["a"]
    for use in (store.get, store.exists, store.delete, lambda each: store.put(each, b"")):
        with pytest.raises(InvalidInput):
            use(f"{INCOMING}/half")


def test_a_list_deletes_what_killed_writers_left_a_day_ago(tmp_path: Path) -> None:
    store = LocalStorage(tmp_path)
    store.put("a", b"1")
    for name, age in (("old", STALE_AFTER_S + 60), ("young", STALE_AFTER_S - 600)):
        (tmp_path / INCOMING / name).touch()
        os.utime(tmp_path / INCOMING / name, (time.time() - age,) * 2)
    store.list()
    assert [each.name for each in (tmp_path / INCOMING).iterdir()] == ["young"]


def test_folders_without_objects_are_removed(tmp_path: Path) -> None:
    store = LocalStorage(tmp_path)
    store.put("runs/a/output.json", b"1")
    store.put("runs/b/assets/c", b"1")
    store.delete("runs/b/assets/c")
    assert sorted(each.name for each in tmp_path.rglob("*")) == [INCOMING, "a", "output.json", "runs"]
    store.delete("runs/a/output.json")
    assert [each.name for each in tmp_path.iterdir()] == [INCOMING]


def test_a_folder_that_vanishes_while_an_object_comes_is_made_again(tmp_path: Path) -> None:
    store = LocalStorage(tmp_path)
    is_over = threading.Event()

    def make_and_delete() -> None:
        while not is_over.is_set():
            store.put("a/b/other", b"")
            store.delete("a/b/other")

    thread = threading.Thread(target=make_and_delete)
    thread.start()
    try:
        for number in range(200):
            store.put_stream("a/b/mine", BytesIO(b"%d" % number), limit=10)
            assert store.get("a/b/mine") == b"%d" % number
            store.delete("a/b/mine")
    finally:
        is_over.set()
        thread.join()


def test_names_that_are_no_text_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff")).write_bytes(b"1")
    assert LocalStorage(tmp_path).list() == []
