"""Answers the calls that the parent sends, one after the other, in a process that is confined."""

from __future__ import annotations

import asyncio
import gc
import importlib
import importlib.util
import inspect
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import reduce
from pathlib import Path
from typing import Any

from pipeweave.attempt import printed_lines
from pipeweave.authoring import Task, bind, describe, outcome_of
from pipeweave.box.box_logs import ToParent
from pipeweave.box.boxed_context import context_of
from pipeweave.box.channel import Channel

# How a box ends that has no memory left to say so.
NO_MEMORY_LEFT = 77
# Kept back for the report of a call that took all memory (bytes).
_RESERVE = 2 * 1024 * 1024


class Serving:
    """The calls of one box.

    Args:
        setup: module, function and file of the task, the id of the task, and its folder.
    """

    def __init__(self, channel: Channel, setup: Mapping[str, Any], sender: ToParent) -> None:
        self._channel = channel
        self._setup = setup
        self._sender = sender
        self._tmp = None if setup["tmp"] is None else Path(setup["tmp"])
        self._fn: Callable[..., Any] | None = None
        self._reserve: bytearray | None = None

    def serve(self) -> None:
        """Answer calls until the parent is gone."""
        while True:
            self._answer(self._channel.hear())

    def _answer(self, message: Mapping[str, Any]) -> None:
        number = message["call"]
        self._reserve = bytearray(_RESERVE)
        os.umask(0o077)
        try:
            self._sender.begin()
            os.chdir(self._tmp or "/")
            answer, encoded = self._called(message)
            _put_right()
        except MemoryError:
            # The exception would hold what filled the memory.
            self._say_out_of_memory(number)
        except BaseException as error:
            answer = {"failed": number, **asdict(describe(error))}
            _put_right()
            self._channel.say(answer)
        else:
            self._channel.say_with({"returned": number, **answer}, encoded)

    def _say_out_of_memory(self, number: Any) -> None:
        self._reserve = None
        gc.collect()
        try:
            self._channel.say({"out_of_memory": number})
        except MemoryError:
            os._exit(NO_MEMORY_LEFT)

    def _called(self, message: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
        function = self._function()
        context = context_of(self._channel, message["context"], self._tmp)
        returned = function(**bind(function, context))
        if inspect.iscoroutine(returned):
            returned = asyncio.run(returned)
        outcome = outcome_of(returned, takes_pending=bool(message["takes_pending"]))
        suspend = None if outcome.suspend is None else asdict(outcome.suspend)
        chosen = None if outcome.run_next is None else list(outcome.run_next)
        return {"run_next": chosen, "suspend": suspend}, outcome.encoded

    def _function(self) -> Callable[..., Any]:
        if self._fn is None:
            module = self._module()
            member = reduce(getattr, self._setup["function"].split("."), module)
            self._fn = member.fn if isinstance(member, Task) else member
        assert self._fn is not None
        return self._fn

    def _module(self) -> Any:
        name, file = self._setup["module"], self._setup["file"]
        if file is None:
            return importlib.import_module(name)
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None and spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


def _put_right() -> None:
    """After a call: log the line that it has begun, and stop its timers, which would end the next call."""
    printed_lines.end_lines()
    for each in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
        signal.setitimer(each, 0)
