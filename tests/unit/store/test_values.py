"""Putting values away and finding them again."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memory_storage import MemoryStorage

from pipeweave.errors import (
    CorruptValue,
    InvalidInput,
    InvalidSetting,
    NotFound,
    ObjectTooLarge,
    Unavailable,
)
from pipeweave.orchestrator.store import values as values_module
from pipeweave.orchestrator.store.values import REFRESH_AFTER, Values, canonical
from pipeweave.size_limits import INLINE_BYTES, INLINE_WHILE_AWAY_BYTES
from pipeweave.storage import Backends
from pipeweave.storage.local import LocalStorage

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text("abcé ", max_size=5), inner, max_size=5)
    ),
    max_leaves=20,
)


@pytest.fixture
def values(tmp_path: Path) -> Values:
    return Values(Backends.only(LocalStorage(tmp_path)))


@given(JSON)
def test_canonical_json_reads_back_and_does_not_depend_on_the_order_of_keys(value: Any) -> None:
    content = canonical(value)
    assert json.loads(content) == value
    assert canonical(json.loads(content)) == content


def test_a_small_value_stays_in_its_row(values: Values) -> None:
    kept = values.keep({"b": 1, "a": "é"})
    assert (kept.inline, kept.path) == ('{"a":"é","b":1}', None)
    assert kept.size == len('{"a":"é","b":1}'.encode())
    assert kept.hash == hashlib.sha256('{"a":"é","b":1}'.encode()).hexdigest()
    assert values.load(json.loads(kept.inline or ""), None) == {"a": "é", "b": 1}


def test_while_storage_is_away_an_output_stays_in_its_row_unless_it_is_too_large() -> None:
    away = Values(Backends.only(MemoryStorage(is_away=True)))
    kept = away.keep_output("x" * (INLINE_WHILE_AWAY_BYTES - 2), "local")
    assert (kept.path, kept.size) == (None, INLINE_WHILE_AWAY_BYTES)
    assert len(json.loads(kept.inline or "")) == INLINE_WHILE_AWAY_BYTES - 2
    with pytest.raises(Unavailable):
        away.keep_output("x" * (INLINE_WHILE_AWAY_BYTES - 1), "local")
    with pytest.raises(Unavailable):
        away.keep("x" * INLINE_BYTES, "local")


@pytest.mark.parametrize("length", [INLINE_BYTES - 3, INLINE_BYTES - 2, INLINE_BYTES - 1, INLINE_BYTES * 40])
def test_a_large_value_goes_to_storage_by_its_content(values: Values, length: int) -> None:
    text = "x" * length
    kept = values.keep(text)
    assert kept.size == length + 2
    assert (kept.path is None) == (kept.size <= INLINE_BYTES)
    assert (kept.inline is None) == (kept.path is not None)
    if kept.path is not None:
        assert kept.path == f"local//artifacts/sha256/{kept.hash[:2]}/{kept.hash}"
        assert values.load(None, kept.path) == text
        assert values.keep(text) == kept


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {"a": {1, 2}},
        {1: "a number as a key"},
        2**64,
        "nul \0",
        ["deep", {"x": ["nul \0"]}],
        {"nul \0": 1},
        "lone \ud800",
        b"bytes",
    ],
    ids=[
        "object",
        "set",
        "number-key",
        "huge-number",
        "nul",
        "deep-nul",
        "nul-key",
        "lone-surrogate",
        "bytes",
    ],
)
def test_a_value_that_is_not_json_is_refused(values: Values, value: Any) -> None:
    with pytest.raises(InvalidInput):
        values.keep(value)


def test_a_text_that_only_mentions_the_escape_of_nul_is_kept(values: Values) -> None:
    assert values.keep("\\u0000").inline == '"\\\\u0000"'


def test_times_are_written_as_texts(values: Values) -> None:
    assert values.keep(datetime(2026, 1, 2, tzinfo=UTC)).inline == '"2026-01-02T00:00:00+00:00"'


def test_an_object_that_storage_lost_is_not_found(values: Values) -> None:
    with pytest.raises(NotFound):
        values.load(None, "artifacts/sha256/ab/" + "ab" * 32)


LARGE = "x" * INLINE_BYTES


@pytest.fixture
def stores() -> dict[str, MemoryStorage]:
    return {"a": MemoryStorage(), "b": MemoryStorage()}


@pytest.fixture
def several(stores: dict[str, MemoryStorage]) -> Values:
    """Values in two backends, of which `a` is the default."""
    return Values(Backends([{"id": each} for each in stores], opened=stores))


def test_a_value_is_read_from_the_backend_it_was_written_to(
    several: Values, stores: dict[str, MemoryStorage]
) -> None:
    kept = [several.keep(LARGE), several.keep(LARGE, "b")]
    paths = [each.path or "" for each in kept]
    assert [each.partition("//")[0] for each in paths] == ["a", "b"]
    assert [len(each.objects) for each in stores.values()] == [1, 1]
    turned = Values(Backends([{"id": each} for each in stores], "b", opened=stores))
    assert [turned.load(None, each) for each in paths] == [LARGE, LARGE]
    assert turned.load_all(paths) == dict.fromkeys(paths, LARGE)


def test_a_path_of_an_older_version_is_read_from_the_default_backend(
    several: Values, stores: dict[str, MemoryStorage]
) -> None:
    stores["a"].objects["runs/old/output.json"] = b"1"
    assert several.load(None, "runs/old/output.json") == 1


def test_a_backend_that_is_gone_is_no_missing_value(several: Values) -> None:
    with pytest.raises(InvalidSetting, match="'old'"):
        several.load_all(["old//artifacts/x"])
    with pytest.raises(InvalidSetting, match="'old'"):
        several.keep(LARGE, "old")


def test_an_object_is_written_again_if_it_is_old_or_cut_short(
    several: Values, stores: dict[str, MemoryStorage], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = stores["a"]
    several.keep(LARGE)
    [(path, content)] = store.objects.items()
    written: list[str] = []
    put = MemoryStorage.put

    def noting(self: MemoryStorage, path: str, content: bytes, **named: str) -> None:
        written.append(path)
        put(self, path, content, **named)

    monkeypatch.setattr(MemoryStorage, "put", noting)
    several.keep(LARGE)
    store.times[path] = datetime.now(UTC) - REFRESH_AFTER + timedelta(minutes=5)
    several.keep(LARGE)
    assert written == []
    store.times[path] = datetime.now(UTC) - REFRESH_AFTER
    several.keep(LARGE)
    several.keep(LARGE)
    assert written == [path]
    store.objects[path] = content[:10]
    several.keep(LARGE)
    assert (written, store.objects[path]) == ([path, path], content)


def test_an_object_that_cannot_be_the_value_is_said_so(
    several: Values, stores: dict[str, MemoryStorage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values_module, "MAX_OUTPUT_BYTES", 10)
    stores["a"].objects |= {"broken": b"{", "large": b"1" * 11}
    found = several.load_all(["a//broken", "a//large", "a//missing"])
    assert [type(each) for each in found.values()] == [CorruptValue, ObjectTooLarge, NotFound]


def test_an_object_with_another_content_than_its_path_says_is_corrupt(
    several: Values, stores: dict[str, MemoryStorage]
) -> None:
    path = several.keep(LARGE).path
    [plain] = stores["a"].objects
    stores["a"].objects[plain] = b'"' + LARGE.replace("x", "y").encode() + b'"'
    with pytest.raises(CorruptValue, match="another content"):
        several.load(None, path)
