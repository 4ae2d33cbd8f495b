"""Stored values for tests: in memory, and shared by all tests of a process, as each has a path of its own."""

from __future__ import annotations

from pipeweave.orchestrator.store.values import Values
from support.memory_storage import MemoryStorage

VALUES = Values(MemoryStorage())
