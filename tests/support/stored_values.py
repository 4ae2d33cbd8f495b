"""Stored values for tests: in memory, and shared by all tests of a process, as each has a path of its own."""

from __future__ import annotations

from pipeweave.orchestrator.store.values import Values
from pipeweave.storage import Backends, Storage
from support.memory_storage import MemoryStorage


def values_in(storage: Storage) -> Values:
    """Values in a storage that is the only backend."""
    return Values(Backends.only(storage))


VALUES = values_in(MemoryStorage())
