"""The archive of a bundle: one way to write it, and no other is read."""

from __future__ import annotations

import io
import itertools
import struct
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave.bundles import archive
from pipeweave.bundles.file_names import clash, name_fault
from pipeweave.errors import InvalidBundle

FILES = {"bundle.json": b"{}", "src/tasks.py": b"x = 1\n"}
names = st.lists(st.text(st.sampled_from("abcdeéß_1"), min_size=1, max_size=8), min_size=1, max_size=3).map(
    "/".join
)


def written(compression: int = zipfile.ZIP_STORED, **files: bytes) -> bytes:
    """An archive as a ZIP program writes it."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", compression) as zip_file:
        for name, content in files.items():
            zip_file.writestr(name, content)
    return made.getvalue()


@given(st.dictionaries(names, st.binary(max_size=200), min_size=1, max_size=8))
def test_the_same_files_give_the_same_bytes_in_whichever_order_they_come(files: dict[str, bytes]) -> None:
    packed = archive.pack(files)
    assert archive.pack(dict(reversed(files.items()))) == packed
    assert archive.unpack(packed) == files


@given(st.dictionaries(names, st.binary(max_size=200), min_size=1, max_size=8))
def test_every_zip_program_reads_it(files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(io.BytesIO(archive.pack(files))) as zip_file:
        assert zip_file.testzip() is None
        assert {each: zip_file.read(each) for each in zip_file.namelist()} == files


@given(st.binary(max_size=400))
def test_bytes_that_are_no_archive_are_refused(junk: bytes) -> None:
    with pytest.raises(InvalidBundle):
        archive.unpack(b"PK\3\4" + junk)


def test_an_archive_of_another_program_is_refused() -> None:
    with pytest.raises(InvalidBundle):
        archive.unpack(written(**{"bundle.json": b"{}"}))


def test_compressed_files_are_refused() -> None:
    with pytest.raises(InvalidBundle, match="compressed"):
        archive.unpack(written(zipfile.ZIP_DEFLATED, bomb=b"0" * 100_000))


def changed(place: int, value: bytes, packed: bytes | None = None) -> bytes:
    packed = archive.pack(FILES) if packed is None else packed
    return packed[:place] + value + packed[place + len(value) :]


END = len(archive.pack(FILES)) - 22
DIRECTORY = struct.unpack_from("<I", archive.pack(FILES), END + 16)[0]
TRICKS = {
    "encrypted, by its flag": changed(6, b"\x01\x08"),
    "with a size after its content": changed(6, b"\x08\x08"),
    "of ZIP64, by its sizes": changed(18, b"\xff" * 8),
    "a link, by its mode": changed(DIRECTORY + 38, struct.pack("<I", 0o120777 << 16)),
    "executable": changed(DIRECTORY + 38, struct.pack("<I", 0o100755 << 16)),
    "with another name in the directory": changed(DIRECTORY + 46, b"C"),
    "whose directory leads to another file": changed(DIRECTORY + 42, struct.pack("<I", 60)),
    "with a date": changed(10, b"\1"),
    "with a comment": changed(END + 20, b"\4\0") + b"boo!",
    "with bytes before it": b"#!/bin/sh\n" + archive.pack(FILES),
    "with bytes after it": archive.pack(FILES) + b"\0",
    "with bytes in the middle": archive.pack(FILES)[:DIRECTORY] + b"\0" + archive.pack(FILES)[DIRECTORY:],
    "without its directory": archive.pack(FILES)[:DIRECTORY],
    "twice": archive.pack(FILES) * 2,
    "empty": archive.pack({}),
    "nothing": b"",
    "cut off in a name": archive.pack(FILES)[:35],
    "cut off in a header": archive.pack(FILES)[:20],
    "in another order": archive.pack({"z": b"1"})[:32] + archive.pack({"a": b"1"}),
}


@pytest.mark.parametrize("trick", TRICKS)
def test_no_trick_with_an_archive_is_read(trick: str) -> None:
    with pytest.raises(InvalidBundle):
        archive.unpack(TRICKS[trick])


def test_another_byte_anywhere_gives_other_files_or_none() -> None:
    """The files are under hashes; no other byte of the archive may differ unnoticed."""
    packed = archive.pack(FILES)
    for place, bit in itertools.product(range(len(packed)), range(8)):
        try:
            read = archive.unpack(changed(place, bytes([packed[place] ^ 1 << bit])))
        except InvalidBundle:
            continue
        assert read != FILES, place


@pytest.mark.parametrize(
    "name",
    [
        *("/etc/passwd", "../up", "src/../../up", "src//a", "src/", ".", "src/./a", "", "C:\\a", "src\\a"),
        *(
            "src/a\n",
            "src/a\x00",
            "src/e\u0301",
            "src/a\u202eb",
            "src/ a",
            "src/a.",
            "src/a ",
            "a" * 241,
            "a:b",
        ),
        "src/nul\u2028",
    ],
)
def test_a_name_that_is_no_plain_relative_path_is_refused(name: str) -> None:
    assert name_fault(name) is not None
    with pytest.raises(InvalidBundle):
        archive.unpack(archive.pack({"bundle.json": b"", name: b""}))


def test_names_that_are_one_file_on_some_machines_clash() -> None:
    assert clash(["src/A.py", "src/a.py"]) is not None
    assert clash(["src/a", "src/a/b.py"]) is not None
    assert clash(["src/a.py", "src/a/b.py", "src/ab.py"]) is None


def test_an_archive_beyond_the_limits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_FILES", 2)
    with pytest.raises(InvalidBundle, match="more than 2 files"):
        archive.unpack(archive.pack({"a": b"", "b": b"", "c": b""}))
    monkeypatch.setattr(archive, "MAX_BUNDLE_BYTES", 100)
    with pytest.raises(InvalidBundle, match="larger than 100 bytes"):
        archive.unpack(bytes(101))
