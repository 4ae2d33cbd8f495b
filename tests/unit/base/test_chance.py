"""Random bytes that are fetched for many at a time."""

from __future__ import annotations

import os

import pytest

from pipeweave import chance


def test_nobody_gets_the_same_bytes_twice() -> None:
    pieces = [chance.piece() for _ in range(1_000)]
    assert len(set(pieces)) == 1_000 and {len(each) for each in pieces} == {chance.SIZE}


@pytest.mark.parametrize("count", [1, 32, 49, 128, 129, 3_200])
def test_a_number_has_so_many_bits_at_most_and_uses_them(count: int) -> None:
    drawn = [chance.bits(count) for _ in range(200)]
    assert max(drawn) < 1 << count and max(drawn) >> count - 1 == 1


def test_a_child_gets_other_bytes_than_its_parent() -> None:
    chance.piece()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, b"".join(chance.piece() for _ in range(4)))
        os._exit(0)
    os.waitpid(child, 0)
    said = os.read(reader, 4 * chance.SIZE)
    os.close(reader)
    os.close(writer)
    assert said != b"".join(chance.piece() for _ in range(4))
