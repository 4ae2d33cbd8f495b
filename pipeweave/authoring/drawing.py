"""Watch a `@pipeline` function while it is drawn, and say where it goes wrong.

A placeholder that is passed to a function which is no task would be a silent mistake: the function runs
once, while the pipeline is drawn, and never in a run. A profile function sees each call. A function of the
user's that calls tasks, or returns a part of a placeholder, is a helper and is allowed.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_VARARGS, CO_VARKEYWORDS
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from pipeweave.authoring.graph_builder import GraphBuilder
from pipeweave.authoring.placeholder import Placeholder, find_placeholder
from pipeweave.errors import InvalidSpec, PipeWeaveError

_OURS = f"{Path(__file__).resolve().parent.parent}{os.sep}"
_LIBRARIES = tuple(
    str(Path(path).resolve())
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
    if (path := sysconfig.get_paths().get(name))
)
# Calls of these return later, are part of a loop, or only make an object that may hold placeholders.
_LATER = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
_HARMLESS = frozenset({"__init__", "__new__", "__post_init__", "__instancecheck__", "__subclasscheck__"})
# Packages whose functions are stopped when they begin: they would send a message, or write a line.
_CELERY = frozenset({"celery", "kombu"})
_AT_ONCE = _CELERY | {"logging"}


@contextmanager
def watch_drawing(pipeline_id: str, fn: Callable[..., Any], builder: GraphBuilder) -> Iterator[None]:
    """Refuse calls that get a placeholder and do nothing with it, and place every error of the function.

    While a profiler runs, calls are not watched: there is one profile function, and cProfile is no function.

    Raises:
        InvalidSpec: names the pipeline, and the file and line of the user's code.
    """
    watch = _Watch(builder)
    is_watching = sys.getprofile() is None
    if is_watching:
        sys.setprofile(watch)
    try:
        yield
    except Exception as error:
        if is_watching:
            sys.setprofile(None)
        raise _placed(error, pipeline_id, fn) from error
    finally:
        if is_watching:
            sys.setprofile(None)
    if watch.misuse is not None:
        raise watch.misuse.as_error(f"pipeline {pipeline_id!r} ({watch.misuse.place}): ")


@dataclass(slots=True)
class _OpenCall:
    """A call that goes on: its number, the placeholder that it received, and the steps when it began."""

    number: int
    received: Placeholder | None
    steps: int
    is_ignored: bool


@dataclass(frozen=True, slots=True)
class _Misuse:
    """A function that received a placeholder, and where it was called."""

    number: int
    name: str
    received: str
    place: str
    is_of_library: bool

    def as_error(self, where: str = "") -> InvalidSpec:
        if self.name.partition(".")[0] in _CELERY:
            return InvalidSpec(
                f"{where}a Celery task received {self.received}: it would be sent while the pipeline is"
                " drawn, and never in a run",
                hint="make its function a PipeWeave task (@task), or send it inside a task",
            )
        return InvalidSpec(
            f"{where}{self.name}() received {self.received}, but it is neither a task nor does it call one:"
            " it would run once while the pipeline is drawn, and never in a run",
            hint="make it a task (@task), or call it inside a task",
        )


class _Watch:
    """A profile function; `found` is the first misuse, as the user sees it."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        self.misuse: _Misuse | None = None
        self._calls: list[_OpenCall] = []
        self._count = 0

    def __call__(self, frame: FrameType, event: str, result: Any) -> None:
        if event == "call":
            self._begin(frame)
        elif event == "return" and self._calls:
            self._end(self._calls.pop(), frame, result)

    def _begin(self, frame: FrameType) -> None:
        code = frame.f_code
        # The first call is that of the pipeline's own function.
        is_first = not self._calls
        is_ignored = not is_first and (self._calls[-1].is_ignored or code.co_filename.startswith(_OURS))
        is_looked_at = not is_first and not is_ignored and not code.co_flags & _LATER
        received = _argument(frame, code) if is_looked_at and code.co_name not in _HARMLESS else None
        self._count += 1
        call = _OpenCall(self._count, received, len(self.builder.steps), is_ignored)
        self._calls.append(call)
        if received is not None and _module(frame).partition(".")[0] in _AT_ONCE:
            raise self._note(call, received, frame).as_error()

    def _end(self, call: _OpenCall, frame: FrameType, result: Any) -> None:
        if call.received is None or len(self.builder.steps) > call.steps:
            return
        if find_placeholder(result) is None and not _holds_placeholder(result):
            self._note(call, call.received, frame)

    def _note(self, call: _OpenCall, received: Placeholder, frame: FrameType) -> _Misuse:
        # Of a library's functions, the one that the user called; of the user's, the innermost.
        if self.misuse is None or (self.misuse.is_of_library and call.number < self.misuse.number):
            caller = frame.f_back
            while caller is not None and not is_users(caller.f_code.co_filename):
                caller = caller.f_back
            caller = caller or frame
            place = f"{caller.f_code.co_filename}:{caller.f_lineno}"
            is_of_library = not is_users(frame.f_code.co_filename)
            name = f"{_module(frame)}." if is_of_library else ""
            name += frame.f_code.co_qualname
            self.misuse = _Misuse(call.number, name, repr(received), place, is_of_library)
        return self.misuse


def _argument(frame: FrameType, code: CodeType) -> Placeholder | None:
    """The first placeholder among the arguments of a call."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    values = frame.f_locals
    arguments = (values[name] for name in code.co_varnames[:count] if name in values)
    return next(
        (placeholder for each in arguments if (placeholder := find_placeholder(each)) is not None), None
    )


def _holds_placeholder(result: Any) -> bool:
    """Whether a returned object has placeholders as attributes."""
    slots = getattr(type(result), "__slots__", ())
    names = [*getattr(result, "__dict__", ()), *((slots,) if isinstance(slots, str) else slots)]
    return any(find_placeholder(getattr(result, each, None)) is not None for each in names)


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def is_users(file: str) -> bool:
    """Whether a file is neither of PipeWeave nor of Python or an installed library."""
    path = str(Path(file).resolve()) if not file.startswith("<") else file
    return not file.startswith("<frozen") and not path.startswith((_OURS, *_LIBRARIES))


def _placed(error: Exception, pipeline_id: str, fn: Callable[..., Any]) -> InvalidSpec:
    """An error of a pipeline's function with its place: the innermost line of the user's code."""
    frames = traceback.extract_tb(error.__traceback__)
    code = fn.__code__
    own = [each for each in frames if is_users(each.filename) or each.filename == code.co_filename]
    place = f"{own[-1].filename}:{own[-1].lineno}" if own else f"{code.co_filename}:{code.co_firstlineno}"
    where = f"pipeline {pipeline_id!r} ({place})"
    if isinstance(error, PipeWeaveError):
        return InvalidSpec(f"{where}: {error.detail}", errors=error.errors, hint=error.hint, **error.context)
    if isinstance(error, TypeError) and "argument" in str(error):
        return InvalidSpec(f"{where}: {error}")  # a call with wrong arguments says all itself
    return InvalidSpec(
        f"{where}: {type(error).__name__}: {error}",
        hint="the function is called once to draw the graph, and should only call tasks",
    )
