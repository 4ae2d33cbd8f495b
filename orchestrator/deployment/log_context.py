"""Remembers which task run this thread is working on, so that each line of its log names it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from pipeweave.orchestrator.domain.log_names import names_of
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import TaskRun

_current: ContextVar[tuple[RunHeader, TaskRun] | None] = ContextVar("current task run", default=None)


# What else begins with the work on a task run, and what ends it: the trace's context, where spans are sent.
Enter = Callable[[RunHeader, TaskRun], Callable[[], None]]
_enter: Enter | None = None


def also_enter(enter: Enter | None) -> None:
    """Do this, too, whenever a thread or an asyncio task begins to work on a task run; None: nothing."""
    global _enter
    _enter = enter


class WorkingOn:
    """Names a task run in every line that the block logs, in this thread and in its asyncio tasks.

    A thread that the block starts has a context of its own: its lines carry no ids.
    """

    # Not a generator, which would cost each call a microsecond more.
    __slots__ = ("_current", "_leave", "_token")

    def __init__(self, run: RunHeader, task_run: TaskRun) -> None:
        self._current = run, task_run

    def __enter__(self) -> None:
        self._token = _current.set(self._current)
        self._leave = None if _enter is None else _enter(*self._current)

    def __exit__(self, *_: object) -> None:
        if self._leave is not None:
            self._leave()
        _current.reset(self._token)


def current() -> tuple[RunHeader, TaskRun] | None:
    """The task run that this thread is working on, with its run; None if there is none."""
    return _current.get()


def current_names() -> Mapping[str, Any]:
    """The ids of the task run that this thread is working on; empty if there is none."""
    current = _current.get()
    return {} if current is None else names_of(*current)


class TaskRunNames(logging.Filter):
    """Adds the ids of the current task run to a record, unless the record has members of these names."""

    def filter(self, record: logging.LogRecord) -> bool:
        known = vars(record)
        for name, value in current_names().items():
            known.setdefault(name, value)
        return True
