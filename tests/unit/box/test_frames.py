"""Frames, whatever arrives in whatever pieces."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import given, strategies

from pipeweave.box.frames import JSON, RAW, BadFrame, FrameReader, json_frame, raw_frame, read_json

values = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.integers(-(2**63), 2**63) | strategies.text(),
    lambda inner: strategies.lists(inner) | strategies.dictionaries(strategies.text(), inner),
)
messages = strategies.dictionaries(strategies.text(), values, max_size=5)
cuts = strategies.lists(strategies.integers(1, 20), max_size=30)


def read_in_pieces(content: bytes, sizes: list[int]) -> list[tuple[bytes, bytes]]:
    reader, frames = FrameReader(), []
    for size in [*sizes, len(content)]:
        reader.feed(content[:size])
        content = content[size:]
        frames += list(reader.frames())
    assert reader.is_empty
    return frames


@given(strategies.lists(messages | strategies.binary(), max_size=6), cuts)
def test_frames_arrive_whole_however_they_are_cut(sent: list[Any], sizes: list[int]) -> None:
    content = b"".join(raw_frame(each) if isinstance(each, bytes) else json_frame(each) for each in sent)
    frames = read_in_pieces(content, sizes)
    read = [content if kind == RAW else read_json(kind, content) for kind, content in frames]
    assert read == [each if isinstance(each, bytes) else orjson.loads(orjson.dumps(each)) for each in sent]


@given(strategies.binary(max_size=200), cuts)
def test_garbage_is_a_bad_frame_or_none_yet_and_nothing_else(content: bytes, sizes: list[int]) -> None:
    reader = FrameReader(longest=64)
    with suppress(BadFrame):
        for size in [*sizes, len(content)]:
            reader.feed(content[:size])
            content = content[size:]
            for kind, inner in reader.frames():
                assert len(inner) <= 64
                read_json(kind, inner)


@given(strategies.binary(max_size=100))
def test_a_message_is_an_object_or_none(content: bytes) -> None:
    with suppress(BadFrame):
        assert isinstance(read_json(JSON, content), dict)


def test_a_frame_of_more_than_the_bound_is_refused_by_its_length_alone() -> None:
    reader = FrameReader(longest=10)
    reader.feed(b"\0\0\0\x0bJ")
    with pytest.raises(BadFrame, match="11 bytes are too long"):
        reader.next()
