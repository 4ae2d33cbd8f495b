"""Putting values away and finding them again."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave.errors import InvalidInput, NotFound
from pipeweave.orchestrator.store.values import Values, canonical
from pipeweave.size_limits import INLINE_BYTES
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
