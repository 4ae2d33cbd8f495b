"""What an HTTP worker reads in another backend is copied there once, if it is what was stored."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from support.memory_storage import MemoryStorage

from pipeweave.errors import CorruptValue
from pipeweave.orchestrator.dispatch.shared_values import SharedValues
from pipeweave.orchestrator.store.values import Values
from pipeweave.storage import Backends, LocalStorage, Storage


def shared(own: Storage, other: Storage) -> SharedValues:
    entries = [{"id": each, "provider": "local", "credentials": {}} for each in ("own", "other")]
    return SharedValues(Values(Backends(entries, "own", opened={"own": own, "other": other})))


def test_an_object_is_copied_once_and_where_it_is_already_not_at_all() -> None:
    own, other = MemoryStorage(), MemoryStorage()
    copies = shared(own, other)
    where = str(copies.values.keep_bytes(b"content", "own", "text/plain"))
    assert copies.path_of(where, "own") == where.partition("//")[2]
    assert [copies.path_of(where, "other") for _ in range(2)] == [*own.objects] * 2
    assert (other.objects, own.reads) == (own.objects, [*own.objects])


def test_what_is_not_the_content_of_its_path_is_not_copied() -> None:
    own, other = MemoryStorage(), MemoryStorage()
    copies = shared(own, other)
    where = copies.values.keep_bytes(b"content", "own", "text/plain")
    own.objects[where.path] = b"changed"
    with pytest.raises(CorruptValue):
        copies.path_of(str(where), "other")
    assert other.objects == {}


def test_a_large_file_is_never_in_memory_as_a_whole(tmp_path: Path) -> None:
    copies = shared(LocalStorage(tmp_path / "own"), LocalStorage(tmp_path / "other"))
    file = tmp_path / "own" / "runs/x/assets/large.bin"
    file.parent.mkdir(parents=True)
    with file.open("wb") as stream:
        stream.truncate(32_000_000)
    tracemalloc.start()
    try:
        path = copies.path_of("own//runs/x/assets/large.bin", "other")
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()
    assert (tmp_path / "other" / path).stat().st_size == 32_000_000
