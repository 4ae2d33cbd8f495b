"""Ids of uploads are found among the texts of a value, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave import ids
from pipeweave.orchestrator.domain.upload_ids import upload_ids_in
from pipeweave.orchestrator.store.values import canonical

ONE = ids.read(ids.UPLOAD, "tmp_01m80arwk4es7bk8x0dg000000")
TWO = ids.read(ids.UPLOAD, "tmp_01m80arwk4es7bk8x0dh000000")
A, B = ids.show(ids.UPLOAD, ONE), ids.show(ids.UPLOAD, TWO)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (A, (ONE,)),
        ([B, A, A], (ONE, TWO)),
        ({"a": {"b": [1, B]}, "c": A}, (ONE, TWO)),
        ([A, [B]], (ONE, TWO)),
        ({A: 1}, ()),
        (f"{A} ", ()),
        (f'"{A}"', ()),
        (f',"{A}",', ()),
        (f"\\{A}", ()),
        (A.upper(), ()),
        (A[:-1], ()),
        (None, ()),
    ],
)
def test_upload_ids_are_texts_of_their_own(value: Any, found: tuple[Any, ...]) -> None:
    assert upload_ids_in(canonical(value)) == found
