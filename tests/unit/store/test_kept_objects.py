"""Files and objects are stored by their content, and the hash is that of what was stored."""

from __future__ import annotations

import hashlib
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memory_storage import MemoryStorage
from support.stored_values import values_in

from pipeweave.errors import CorruptValue, NotFound, ObjectTooLarge
from pipeweave.orchestrator.store import kept_objects
from pipeweave.orchestrator.store.values import ARTIFACTS
from pipeweave.storage import LocalStorage, ObjectRef
from pipeweave.storage.streams import PieceReader, checked, measured

SOURCE = ObjectRef("local", "runs/x/assets/a")


def path_of(content: bytes) -> str:
    digest = hashlib.sha256(content).hexdigest()
    return f"{ARTIFACTS}{digest[:2]}/{digest}"


@given(pieces=st.lists(st.binary(max_size=9)), size=st.integers(1, 7))
def test_pieces_are_read_as_the_file_that_they_are(pieces: list[bytes], size: int) -> None:
    reader = PieceReader(pieces)
    read = list(iter(lambda: reader.read(size), b""))
    assert b"".join(read) == b"".join(pieces)
    assert all(0 < len(each) <= size for each in read)


@given(pieces=st.lists(st.binary(max_size=9)), other=st.binary(max_size=20))
def test_pieces_end_with_an_error_unless_they_are_the_content(pieces: list[bytes], other: bytes) -> None:
    content = b"".join(pieces)
    assert b"".join(checked("a", pieces, measured("a", PieceReader(pieces), 1_000).sha256)) == content
    if other != content:
        with pytest.raises(CorruptValue):
            list(checked("a", pieces, hashlib.sha256(other).hexdigest()))


def test_equal_files_are_one_object(tmp_path: Path) -> None:
    storage, content = MemoryStorage(), b"sum" * 1_000
    values = values_in(storage)
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(content)
    kept = [kept_objects.keep_file(values, tmp_path / name, "local", "text/plain", 9_999) for name in "ab"]
    assert kept[0] == kept[1]
    assert storage.objects == {path_of(content): content}
    assert (kept[0].reference, kept[0].size) == (f"local//{path_of(content)}", 3_000)


class ChangingStorage(MemoryStorage):
    """An object that somebody writes anew whenever it was read, as often as there are contents."""

    later: Iterator[bytes] = iter(())

    @contextmanager
    def open(self, path: str, *, start: int = 0, length: int | None = None) -> Iterator[Iterator[bytes]]:
        yield iter([self.objects[path]])
        if path == SOURCE.path and (content := next(self.later, None)) is not None:
            self.objects[path] = content


@pytest.fixture
def read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_objects, "READ_AT_ONCE", 2)


@pytest.mark.usefixtures("read_in_pieces")
def test_an_object_that_is_written_while_it_is_read_is_read_again() -> None:
    storage = ChangingStorage({SOURCE.path: b"first"})
    storage.later = iter([b"other", b"longer"])
    kept = kept_objects.keep_object(values_in(storage), SOURCE, limit=100)
    assert storage.objects == {SOURCE.path: b"longer", path_of(b"longer"): b"longer"}
    assert kept.sha256 == hashlib.sha256(b"longer").hexdigest()


@pytest.mark.usefixtures("read_in_pieces")
def test_nothing_is_stored_of_an_object_that_changes_all_the_time() -> None:
    storage = ChangingStorage({SOURCE.path: b"first"})
    storage.later = (b"%05d" % number for number in range(100))
    with pytest.raises(CorruptValue):
        kept_objects.keep_object(values_in(storage), SOURCE, limit=100)
    assert set(storage.objects) == {SOURCE.path}


@pytest.mark.parametrize("size", [0, 2, 3, 100])
@pytest.mark.usefixtures("read_in_pieces")
def test_an_object_of_any_size_is_stored_as_it_is(size: int) -> None:
    content = bytes(size)
    storage = MemoryStorage({SOURCE.path: content})
    kept = kept_objects.keep_object(values_in(storage), SOURCE, limit=100)
    assert (kept.size, storage.objects[path_of(content)]) == (size, content)


@pytest.mark.usefixtures("read_in_pieces")
def test_an_object_that_is_missing_or_too_large_is_refused() -> None:
    values = values_in(MemoryStorage({SOURCE.path: bytes(101)}))
    with pytest.raises(ObjectTooLarge, match="101 bytes; at most 100"):
        kept_objects.keep_object(values, SOURCE, limit=100)
    with pytest.raises(NotFound):
        kept_objects.keep_object(values, ObjectRef("local", "runs/x/assets/b"), limit=100)


def test_a_large_object_is_copied_piece_by_piece(tmp_path: Path) -> None:
    storage, pieces = LocalStorage(tmp_path), []
    (tmp_path / "runs/x/assets").mkdir(parents=True)
    with (tmp_path / SOURCE.path).open("wb") as file:
        file.truncate(48_000_000)
    tracemalloc.start()
    try:
        kept_objects.keep_object(values_in(storage), SOURCE, limit=50_000_000, alive=lambda: pieces.append(1))
        assert tracemalloc.get_traced_memory()[1] < 16_000_000
    finally:
        tracemalloc.stop()
    assert len(pieces) >= 2 * 40


@pytest.mark.parametrize("change", [lambda content: content + b"x", lambda content: content[1:] + b"x"])
def test_a_reader_is_told_of_a_file_that_is_not_what_was_stored(
    tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    storage = MemoryStorage()
    values = values_in(storage)
    (tmp_path / "a").write_bytes(b"content")
    kept = kept_objects.keep_file(values, tmp_path / "a", "local", "text/plain", 9)
    with kept_objects.opened(values, kept.reference) as read:
        assert b"".join(read) == b"content"
    storage.objects[path_of(b"content")] = change(b"content")
    with kept_objects.opened(values, kept.reference) as read, pytest.raises(CorruptValue):
        list(read)
