"""What is shown of a stored object: data, never anything that a browser would run."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from support.memory_storage import MemoryStorage

from pipeweave.orchestrator.objects import previews
from pipeweave.orchestrator.objects.previews import MAX_IMAGE, MAX_JSON, MAX_TEXT, MOST_ROWS, Preview
from pipeweave.storage import ObjectInfo

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
SCRIPT = "<svg onload=alert(1)><script>alert(1)</script></svg>"


def of(path: str, content: bytes) -> Preview:
    storage = MemoryStorage({path: content})
    return previews.preview(storage, ObjectInfo(path, len(content), datetime.now(UTC)))


def test_json_is_a_value() -> None:
    assert of("runs/x.1/output.json", b'{"a": [1, null]}').content == {"a": [1, None]}
    assert of("artifacts/sha256/ab/x", b"[]").kind == "json"


def test_the_name_of_a_file_tells_what_its_path_does_not() -> None:
    content = b"name,weight\ntin,3\n"
    storage = MemoryStorage({"artifacts/sha256/ab/x": content})
    entry = ObjectInfo("artifacts/sha256/ab/x", len(content), datetime.now(UTC))
    assert previews.preview(storage, entry).kind == "text"
    named = previews.preview(storage, entry, "rows.csv")
    assert (named.kind, named.media_type) == ("table", "text/csv")


@pytest.mark.parametrize("path", ["a.html", "a.svg", "a.xhtml", "a.js", "a", "a.md"])
def test_what_a_browser_would_run_is_text(path: str) -> None:
    found = of(path, SCRIPT.encode())
    assert (found.kind, found.text) == ("text", SCRIPT)


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("image/png", PNG),
        ("image/jpeg", b"\xff\xd8\xff\xe0" + bytes(20)),
        ("image/gif", b"GIF89a" + bytes(20)),
        ("image/webp", b"RIFF\x10\0\0\0WEBPVP8 " + bytes(20)),
    ],
)
def test_an_image_is_told_by_its_bytes_whatever_it_is_called(name: str, head: bytes) -> None:
    for path in ("a.png", "a.html", "output.json"):
        assert (of(path, head).kind, of(path, head).media_type) == ("image", name)


def test_a_large_image_is_only_to_download() -> None:
    assert of("a.png", PNG + bytes(MAX_IMAGE)).kind == "none"


@pytest.mark.parametrize("content", [b"\x00\x01", b"a\xffb", b"a\x00b", bytes(300_000)])
def test_bytes_that_are_no_text_are_not_shown(content: bytes) -> None:
    found = of("image.png", content)
    assert (found.kind, found.text, found.rows) == ("none", None, None)


def test_the_colours_and_tabs_of_a_log_are_text() -> None:
    assert of("a.log", b"\x1b[31mred\x1b[0m\tx\r\n").kind == "text"


def test_long_text_is_cut_also_within_a_character() -> None:
    found = of("a.txt", b"x" + "é".encode() * MAX_TEXT)
    assert found.kind == "text"
    assert found.is_cut
    assert found.text is not None
    assert found.text.endswith("é")
    assert not of("a.txt", b"\xef\xbb\xbfshort").is_cut


def test_what_is_called_json_and_is_none_or_is_large_is_text() -> None:
    assert of("output.json", b"{nonsense").text == "{nonsense"
    large = of("output.json", b"[" + b" " * MAX_JSON + b"]")
    assert (large.kind, large.is_cut) == ("text", True)


@pytest.mark.parametrize(
    ("path", "content"),
    [("a.csv", 'x,y\r\n1,"a, ""b"""\r\n'), ("a.csv", 'x;y\n1;a, "b"\n'), ("a.tsv", 'x\ty\n1\t"a, ""b"""\n')],
)
def test_a_table_has_rows_whatever_separates_its_cells(path: str, content: str) -> None:
    assert of(path, content.encode()).rows == [["x", "y"], ["1", 'a, "b"']]


def test_of_a_large_table_the_first_rows_and_columns_are_shown() -> None:
    found = of("a.csv", b"\n".join(b",".join([b"y" * 400] * 60) for _ in range(MOST_ROWS + 5)))
    assert found.rows is not None
    assert (len(found.rows) <= MOST_ROWS, len(found.rows[0]), len(found.rows[0][0])) == (True, 50, 300)
    assert found.is_cut
    assert not of("a.csv", b"x\n1\n").is_cut


def test_a_table_that_is_none_is_text() -> None:
    assert of("a.csv", b'"' + b"x" * 200_000).kind == "text"


def test_an_empty_object_is_empty_text() -> None:
    assert (of("a", b"").kind, of("a", b"").text) == ("text", "")
    assert of("a.csv", b"").rows == []
