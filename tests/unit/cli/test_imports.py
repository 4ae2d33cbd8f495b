"""Imports without looking for garbage; afterwards Python looks for it as before."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from pipeweave.cli.support.imports import importing


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    """The tests' own processes look for garbage seldom, too."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_garbage_is_looked_for_as_before_when_the_imports_are_done() -> None:
    before = gc.get_threshold()
    with importing():
        assert gc.get_threshold()[0] == 100_000
        assert gc.isenabled()
    assert gc.get_threshold() == before


def test_also_when_an_import_fails() -> None:
    before = gc.get_threshold()
    with pytest.raises(ModuleNotFoundError), importing():
        import pipeweave.nowhere  # type: ignore[import-not-found] # noqa: F401
    assert gc.get_threshold() == before
