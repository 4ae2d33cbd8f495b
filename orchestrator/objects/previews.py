"""Shows what a stored object holds, as data: JSON, text, the rows of a table, or that it is an image.

Nothing of an object is ever run or rendered: a page of HTML or a drawing in SVG is text here. What says what
an object is are its first bytes; its name only tells a table from other text.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from pipeweave.orchestrator.objects import media_types
from pipeweave.storage import ObjectInfo, Storage

# JSON is shown as a whole or, above this size (bytes), as the beginning of its text.
MAX_JSON = 1_000_000
# Of other text so much is read (bytes).
MAX_TEXT = 256_000
# Images up to this size (bytes) are worth a look.
MAX_IMAGE = 1_000_000
MOST_ROWS, MOST_COLUMNS, MOST_CELL_CHARS = 200, 50, 300

Kind = Literal["json", "text", "table", "image", "none"]

# How files of these types begin; all of them are pictures that cannot hold a script.
_IMAGES = (
    ("image/png", re.compile(rb"\x89PNG\r\n\x1a\n")),
    ("image/jpeg", re.compile(rb"\xff\xd8\xff")),
    ("image/gif", re.compile(rb"GIF8[79]a")),
    ("image/webp", re.compile(rb"RIFF.{4}WEBP", re.DOTALL)),
)
_IMAGE_HEAD = 12
_SEPARATORS = {"text/csv": ",;\t|", "text/tab-separated-values": "\t"}
# Characters that no text has: what holds them is bytes. Escape, form feed and backspace are in logs.
_NO_TEXT = re.compile(r"[\x00-\x07\x0b\x0e-\x1a\x1c-\x1f]")


@dataclass(frozen=True, slots=True)
class Preview:
    """What an object holds.

    Args:
        kind: which of the others tells it; `none`: only its bytes do.
        media_type: such as `image/png`, by its bytes, else by its path.
        content: of JSON, the value.
        text: of text.
        rows: of a table, its first rows; the first of them has the names of the columns.
        is_cut: there is more than is shown.
    """

    kind: Kind
    media_type: str
    content: Any = None
    text: str | None = None
    rows: Sequence[Sequence[str]] | None = None
    is_cut: bool = False


def preview(storage: Storage, entry: ObjectInfo, name: str | None = None) -> Preview:
    """Read the beginning of an object, and tell what it is.

    Args:
        name: of the file, where its path has none.

    Raises:
        NotFound: it was deleted meanwhile.
        Unavailable: storage cannot be reached.
    """
    named = media_types.media_type(entry.path, name)
    image = _image_type(_read(storage, entry, _IMAGE_HEAD))
    if image is not None:
        return Preview("image" if entry.size <= MAX_IMAGE else "none", image)
    if media_types.is_json(entry.path, name) and entry.size <= MAX_JSON:
        content = _read(storage, entry, MAX_JSON)
        try:
            return Preview("json", named, content=orjson.loads(content))
        except orjson.JSONDecodeError:
            return of_text(content[:MAX_TEXT], named, is_cut=len(content) > MAX_TEXT)
    return of_text(_read(storage, entry, MAX_TEXT), named, is_cut=entry.size > MAX_TEXT)


def of_text(content: bytes, media_type: str, *, is_cut: bool) -> Preview:
    """The preview of bytes that may be text (pure).

    Args:
        is_cut: the object has more bytes than these.
    """
    text = _text(content, is_cut=is_cut)
    if text is None:
        return Preview("none", media_type)
    rows = _rows(text, media_type, is_cut=is_cut)
    if rows is None:
        return Preview("text", media_type, text=text, is_cut=is_cut)
    shown = [_row(each) for each in rows[:MOST_ROWS]]
    return Preview("table", media_type, rows=shown, is_cut=is_cut or shown != rows)


def _read(storage: Storage, entry: ObjectInfo, most: int) -> bytes:
    if not entry.size:
        return b""
    with storage.open(entry.path, start=0, length=most) as pieces:
        return b"".join(pieces)


def _image_type(head: bytes) -> str | None:
    return next((name for name, begins in _IMAGES if begins.match(head)), None)


def _text(content: bytes, *, is_cut: bool) -> str | None:
    """The bytes as text; None for what is none. The cut may lie within a character."""
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(content, final=not is_cut)
    except UnicodeDecodeError:
        return None
    return None if _NO_TEXT.search(text) else text


def _rows(text: str, media_type: str, *, is_cut: bool) -> list[list[str]] | None:
    """The first rows of a table, one more than are shown; None for what is none."""
    separators = _SEPARATORS.get(media_type)
    if separators is None:
        return None
    separator = max(separators, key=text.partition("\n")[0].count)
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator):
            rows.append(row)
            if len(rows) > MOST_ROWS:
                return rows
    except csv.Error:
        return None
    # The cut may lie within the last row.
    return rows[:-1] if is_cut else rows


def _row(cells: Sequence[str]) -> list[str]:
    return [
        each if len(each) <= MOST_CELL_CHARS else f"{each[: MOST_CELL_CHARS - 1]}…"
        for each in cells[:MOST_COLUMNS]
    ]
