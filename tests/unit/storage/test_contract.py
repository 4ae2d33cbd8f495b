"""Every storage backend behaves the same: files in a folder, and buckets of real stores over HTTP."""

from __future__ import annotations

import hashlib
import io
import os
import signal
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipeweave.errors import InvalidInput, InvalidSetting, NotFound, ObjectTooLarge, Unavailable
from pipeweave.orchestrator.store import kept_objects
from pipeweave.orchestrator.store.values import ARTIFACTS, Values
from pipeweave.storage import (
    Backends,
    LocalStorage,
    ObjectRef,
    S3Storage,
    Storage,
    WrittenContent,
    gcs,
    open_backend,
    s3,
)
from pipeweave.storage.base import PIECE_BYTES
from pipeweave.storage.gcs import CHUNK_BYTES
from pipeweave.storage.s3_parts import MIN_PART_BYTES
from pipeweave.up.ports import free_port

PATH = "artifacts/sha256/ab/é and a space"
assert CHUNK_BYTES == MIN_PART_BYTES
PART = CHUNK_BYTES


class Zeros:
    """A file of zeros that is nowhere in memory as a whole.

    Args:
        size: bytes.
        fails_at: it cannot be read further than this.
        at_end: called when the last byte was read.
    """

    def __init__(
        self, size: int, *, fails_at: int | None = None, at_end: Callable[[], object] = bool
    ) -> None:
        self._left = size
        self._fails_below = 0 if fails_at is None else size - fails_at
        self._at_end = at_end

    def read(self, size: int, /) -> bytes:
        if self._fails_below and self._left <= self._fails_below:
            raise ConnectionResetError("the sender is gone")
        taken = min(size, self._left)
        self._left -= taken
        if not self._left:
            self._at_end()
        return b"\0" * taken


def read_all(storage: Storage, path: str, *, start: int = 0, length: int | None = None) -> bytes:
    with storage.open(path, start=start, length=length) as pieces:
        return b"".join(pieces)


@pytest.mark.parametrize("content", [b"", b"\0\xff\r\n", b"x" * 3_000_000], ids=["empty", "bytes", "large"])
def test_an_object_comes_back_as_it_was_put(storage: Storage, content: bytes) -> None:
    storage.put(PATH, content, content_type="application/json")
    assert storage.get(PATH) == read_all(storage, PATH) == content
    assert storage.exists(PATH)
    found = storage.stat(PATH)
    assert found is not None and (found.path, found.size) == (PATH, len(content))
    assert abs(datetime.now(UTC) - found.modified_at) < timedelta(minutes=5)


def test_an_object_is_replaced_as_a_whole(storage: Storage) -> None:
    storage.put("a", b"a longer one")
    storage.put("a", b"short")
    storage.put("a", b"short")
    assert (storage.get("a"), [each.path for each in storage.list()]) == (b"short", ["a"])


def test_an_object_that_is_not_there_is_not_found_and_deleting_it_is_nothing(storage: Storage) -> None:
    assert storage.stat(PATH) is None and not storage.exists(PATH)
    storage.delete(PATH)
    for read in (storage.get, lambda path: read_all(storage, path), lambda p: read_all(storage, p, length=0)):
        with pytest.raises(NotFound, match="é and a space") as caught:
            read(PATH)
        assert caught.value.context == {"path": PATH}


def test_a_deleted_object_is_gone_and_its_neighbour_stays(storage: Storage) -> None:
    storage.put("a/b", b"1")
    storage.put("a/bc", b"2")
    storage.delete("a/b")
    assert (storage.exists("a/b"), storage.get("a/bc")) == (False, b"2")
    storage.delete("a/bc")
    storage.put("a/b", b"3")
    assert [each.path for each in storage.list()] == ["a/b"]


def test_a_prefix_of_an_object_path_is_no_object(storage: Storage) -> None:
    storage.put("a/b", b"1")
    assert not storage.exists("a")
    with pytest.raises(NotFound):
        storage.get("a")


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "../beside",
        "a/../../beside",
        "a//b",
        "a/.",
        "a\0b",
        "é" * 600,
        "a/" + "b" * 256,
        "a\ud800",
    ],
)
def test_a_path_that_could_leave_the_storage_is_refused(storage: Storage, path: str) -> None:
    uses: list[Callable[[str], object]] = [
        *(storage.get, storage.stat, storage.exists, storage.delete),
        lambda each: storage.put(each, b""),
        lambda each: storage.put_stream(each, Zeros(1), limit=1),
        lambda each: read_all(storage, each),
        lambda each: storage.presign(each, method="GET", seconds=60),
        lambda each: storage.list(f"{each}/x"),
    ]
    for use in uses:
        with pytest.raises(InvalidInput, match="inside the storage"):
            use(path)


# --- streams and sizes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES + 1, PART - 1, PART, PART + 1, 2 * PART + 5])
def test_a_stream_comes_back_with_its_size_and_hash(storage: Storage, size: int) -> None:
    content = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    written = storage.put_stream(PATH, io.BytesIO(content), limit=size, content_type="text/plain")
    assert written == WrittenContent(size, hashlib.sha256(content).hexdigest())
    assert storage.get(PATH) == read_all(storage, PATH) == content


def test_a_large_object_is_never_in_memory_as_a_whole(storage: Storage) -> None:
    size = 6 * PART
    tracemalloc.start()
    try:
        storage.put_stream("a", Zeros(size), limit=10 * size)
        with storage.open("a") as pieces:
            assert sum(map(len, pieces)) == size
        assert tracemalloc.get_traced_memory()[1] < 4 * PART
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [1000, PART + 1000, 2 * PART + 1000])
def test_a_stream_over_its_limit_leaves_what_was_there(storage: Storage, size: int) -> None:
    storage.put("a", b"before")
    for path in ("a", "b"):
        with pytest.raises(ObjectTooLarge, match=f"{size - 1:,}") as caught:
            storage.put_stream(path, Zeros(size), limit=size - 1)
        assert caught.value.context == {"path": path, "limit": size - 1}
    assert (storage.get("a"), [each.path for each in storage.list()]) == (b"before", ["a"])
    assert leftovers(storage) == []


@pytest.mark.parametrize("fails_at", [0, 1, PART + 1])
def test_a_stream_that_breaks_off_leaves_nothing(storage: Storage, fails_at: int) -> None:
    with pytest.raises(ConnectionResetError):
        storage.put_stream("a", Zeros(3 * PART, fails_at=fails_at), limit=3 * PART)
    assert (storage.exists("a"), storage.list(), leftovers(storage)) == (False, [], [])


def leftovers(storage: Storage) -> list[object]:
    """What an unfinished write left behind, which no list shows."""
    if isinstance(storage, LocalStorage):
        return [each for each in storage.root.glob(".incoming/*")]
    if isinstance(storage, S3Storage):
        with storage._client() as client:
            return list(client.list_multipart_uploads(Bucket=storage.bucket.name).get("Uploads", ()))
    return []


def test_an_object_over_the_readers_limit_is_refused(storage: Storage) -> None:
    storage.put("a", b"12345")
    assert storage.get("a", limit=5) == b"12345"
    with pytest.raises(ObjectTooLarge):
        storage.get("a", limit=4)
    storage.put("empty", b"")
    assert storage.get("empty", limit=0) == b""


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [
        (0, 3, b"012"),
        (3, None, b"3456789"),
        (8, 100, b"89"),
        (9, 1, b"9"),
        (4, 0, b""),
        (10, None, b""),
        (11, 5, b""),
    ],
)
def test_a_part_of_an_object_is_read(
    storage: Storage, start: int, length: int | None, expected: bytes
) -> None:
    storage.put("a", b"0123456789")
    assert read_all(storage, "a", start=start, length=length) == expected


def test_a_part_that_spans_requests_is_read(storage: Storage) -> None:
    content = os.urandom(1024) * (2 * PART // 1024 + 1)
    storage.put_stream("a", io.BytesIO(content), limit=len(content))
    assert read_all(storage, "a", start=5, length=PART + 10) == content[5 : PART + 15]


def test_an_error_of_the_reader_is_not_the_storages(storage: Storage) -> None:
    storage.put("a", b"1")
    for kind in (FileNotFoundError, ConnectionResetError, KeyError):
        with pytest.raises(kind), storage.open("a") as pieces:
            next(pieces)
            raise kind("of the reader")


def test_a_reader_may_stop_early(storage: Storage) -> None:
    storage.put_stream("a", Zeros(2 * PART), limit=2 * PART)
    with storage.open("a") as pieces:
        assert next(pieces)
    assert storage.exists("a")


def test_a_writer_that_is_killed_leaves_nothing_visible(storage: Storage) -> None:
    """It dies when it has read the last byte: in a folder, just before the rename."""
    storage.put("a", b"before")
    child = os.fork()
    if not child:
        try:
            size = 2 * PART + 1
            storage.put_stream(
                "a", Zeros(size, at_end=lambda: os.kill(os.getpid(), signal.SIGKILL)), limit=size
            )
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert (storage.get("a"), [each.path for each in storage.list()]) == (b"before", ["a"])


def test_a_child_that_was_forked_has_connections_of_its_own(storage: Storage) -> None:
    storage.put("a", b"parent")
    child = os.fork()
    if not child:
        try:
            storage.put("b", storage.get("a"))
            os._exit(0)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert storage.get("b") == b"parent"


# --- lists --------------------------------------------------------------------------------------------------

# In order: '-' and '.' come before '/', '0' behind it.
PATHS = ["a", "a-b", "a.b", "a/b", "a/b.c", "a/b/c", "a/b/d", "a/é", "a0", "b/a", "é"]


@pytest.fixture(scope="module", params=["local", "aws-s3", "minio", "gcs"])
def filled(request: pytest.FixtureRequest, opened: Callable[[str], Storage]) -> Storage:
    """A backend with PATHS for all tests that only read."""
    storage = opened(request.param)
    # A folder cannot have a file and a folder of one name.
    without = {"a", "a/b"} if isinstance(storage, LocalStorage) else set()
    for path in reversed(PATHS):
        if path not in without:
            storage.put(path, path.encode())
    return storage


@pytest.fixture
def full(filled: Storage, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """A backend with PATHS; the stores answer two of them at once."""
    monkeypatch.setattr(s3, "LIST_PAGE", 2)
    monkeypatch.setattr(gcs, "LIST_PAGE", 2)
    return filled


def expected_paths(storage: Storage, prefix: str = "", after: str = "") -> list[str]:
    without = {"a", "a/b"} if isinstance(storage, LocalStorage) else set()
    return [each for each in PATHS if each not in without and each.startswith(prefix) and each > after]


@pytest.mark.parametrize("prefix", ["", "a", "a/", "a/b", "a/b/", "a/b/c", "b", "é", "nothing", "nothing/"])
def test_objects_are_listed_by_prefix_in_the_order_of_their_paths(full: Storage, prefix: str) -> None:
    found = full.list(prefix)
    assert [each.path for each in found] == expected_paths(full, prefix)
    assert [each.size for each in found] == [len(each.path.encode()) for each in found]
    assert all(each.modified_at.tzinfo is not None for each in found)


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_pages_of_a_list_join_without_gap(full: Storage, limit: int) -> None:
    found: list[str] = []
    while page := full.list("a", after=found[-1] if found else "", limit=limit):
        assert len(page) <= limit
        found += [each.path for each in page]
    assert found == expected_paths(full, "a")


def test_a_page_begins_behind_a_path_that_is_gone(full: Storage) -> None:
    for after in ("a-", "a/b/c0", "a0/x", "b", "zzz", "ééé"):
        assert [each.path for each in full.list(after=after)] == expected_paths(full, after=after)


def test_an_empty_backend_lists_nothing(storage: Storage) -> None:
    assert storage.list() == storage.list("a/") == []


# --- stores in trouble --------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["local", "aws-s3", "minio", "gcs"])
def test_a_store_that_is_away_is_unavailable(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gcs, "RETRY_FOR_S", 0.1)
    monkeypatch.setattr(s3, "MAX_ATTEMPTS", 1)
    (tmp_path / "file").touch()
    keys = ("basePath", "accessKey", "secretKey", "accessKeyId", "secretAccessKey")
    credentials = {} if provider == "gcs" else dict.fromkeys(keys, str(tmp_path / "file"))
    where = {"endpoint": f"http://127.0.0.1:{free_port()}", "bucket": "values"}
    storage = open_backend({"id": "a", "provider": provider, "credentials": credentials, **where})
    uses: list[Callable[[], object]] = [
        lambda: storage.put("b", b""),
        lambda: storage.put_stream("b", Zeros(PART + 1), limit=2 * PART),
        lambda: storage.get("b"),
        lambda: read_all(storage, "b"),
        lambda: storage.delete("b"),
    ]
    if provider != "local":
        uses += [lambda: storage.list(), lambda: storage.stat("b"), lambda: storage.exists("b")]
    for use in uses:
        with pytest.raises(Unavailable):
            use()


@pytest.mark.parametrize("provider", ["aws-s3", "minio", "gcs"])
def test_a_bucket_that_is_missing_is_named(provider: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("gcs_url" if provider == "gcs" else "s3_url")
    keys = dict.fromkeys(("accessKey", "secretKey", "accessKeyId", "secretAccessKey"), "hunter2")
    backend = {"id": "a", "provider": provider, "endpoint": url, "bucket": "no-such-bucket"}
    storage = open_backend({**backend, "credentials": {} if provider == "gcs" else keys})
    uses: list[Callable[[], object]] = [
        *(lambda: storage.get("b"), lambda: storage.delete("b"), lambda: storage.put("b", b"")),
        *(lambda: read_all(storage, "b"), storage.list),
        lambda: storage.put_stream("b", Zeros(PART + 1), limit=2 * PART),
    ]
    for use in uses:
        with pytest.raises(InvalidSetting, match="no-such-bucket") as caught:
            use()
        assert "python -m pipeweave.storage" in str(caught.value.hint)


def test_an_object_that_is_written_while_it_is_read_is_copied_as_it_is_afterwards(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_objects, "READ_AT_ONCE", 2)
    source = ObjectRef("local", "runs/x/assets/a")
    storage.put(source.path, b"first")
    changes = iter([lambda: storage.put(source.path, b"later")])
    kept = kept_objects.keep_object(
        Values(Backends.only(storage)), source, limit=10, alive=lambda: next(changes, bool)()
    )
    assert (kept.size, kept.sha256) == (5, hashlib.sha256(b"later").hexdigest())
    path = kept.reference.partition("//")[2]
    assert storage.get(path) == b"later"
    assert path in [each.path for each in storage.list(ARTIFACTS)]
    assert not storage.exists(path.replace(kept.sha256, hashlib.sha256(b"first").hexdigest()))
