"""One box: starts the process, has it confine itself, and calls its function, call after call.

Between two calls the process is stopped (SIGSTOP): nothing that a call has left behind runs on. A box whose
call ended in any other way than by a result or an exception is used no more.
"""

from __future__ import annotations

import logging
import os
import resource
import secrets
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from pipeweave.attempt import Files
from pipeweave.attempt.temp_folders import TempFolder
from pipeweave.authoring import Context
from pipeweave.box.boxed_context import PLAIN_FIELDS
from pipeweave.box.frames import json_frame
from pipeweave.errors import SandboxUnavailable
from pipeweave.sending import Networks
from pipeweave.workers.boxes import answers, box_folder
from pipeweave.workers.boxes.asked import Asked
from pipeweave.workers.boxes.box_spec import BoxSpec
from pipeweave.workers.boxes.conversation import BoxConversation, Budget
from pipeweave.workers.boxes.relays import Relays

log = logging.getLogger(__name__)

MAX_CALLS = 500
"""Calls of one box; then another one takes its place."""

_START_S = 30.0


class BoxProcess:
    """A process that calls one function.

    Args:
        spec: which, and what it may use.
        networks: which of the addresses that the sandbox lists may be reached.

    Raises:
        SandboxUnavailable: the process could not be confined. No code of users has run.
    """

    def __init__(self, spec: BoxSpec, networks: Networks | None = None) -> None:
        self.spec = spec
        self.is_usable = True
        self._calls = 0
        self._folder = TempFolder() if spec.sandbox.has_tmp else None
        mine, its = socket.socketpair()
        try:
            with its:
                self._process = self._start(its.fileno())
        except OSError as error:
            mine.close()
            self._remove_folder()
            raise SandboxUnavailable(f"no process could be started: {error.strerror}") from error
        self._conversation = BoxConversation(mine, self._process)
        self._relays = Relays(spec, networks or Networks(()), self._conversation.selector)
        self._conversation.relays = self._relays
        try:
            self._confine()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._process.pid

    @property
    def tmp(self) -> Path | None:
        """The folder of its calls; None if they have none."""
        return None if self._folder is None else self._folder.path / "box"

    def _start(self, descriptor: int) -> subprocess.Popen[bytes]:
        if self.tmp is not None:
            self.tmp.mkdir(mode=0o700)
        command = [sys.executable, "-I", "-B", "-X", "utf8", "-m", "pipeweave.box", str(descriptor)]
        return subprocess.Popen(
            command,
            env={},
            cwd=self.tmp or "/",
            pass_fds=(descriptor,),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _confine(self) -> None:
        spec = self.spec
        setup = {
            "parent": os.getpid(),
            "tmp": None if self.tmp is None else str(self.tmp),
            "code_roots": [str(each) for each in spec.code_roots],
            "readable": [str(each) for each in spec.readable],
            "module": spec.module,
            "function": spec.function,
            "file": None if spec.file is None else str(spec.file),
            "memory": spec.sandbox.memory_bytes,
            "hosts": list(spec.sandbox.hosts),
            "level": logging.root.level,
        }
        reason = self._conversation.begin(json_frame(setup), _START_S)
        if reason is not None:
            raise SandboxUnavailable(reason)
        self._freeze()

    def call(self, context: Context, files: Files, seconds: float, *, takes_pending: bool = False) -> Any:
        """Call the function once.

        Args:
            context: of the attempt; the parent answers from it what the call asks for.
            files: of the attempt.
            seconds: how long the call may take (s).
            takes_pending: whether a dict `{"status": "pending", …}` suspends the call.

        Returns:
            What the function returned: a TaskResult or a Suspend.

        Raises:
            RaisedElsewhere: what the function raised.
            AttemptTimedOut, SandboxCpuExceeded, SandboxMemoryExceeded, SandboxOutputTooLarge, SandboxCrashed:
                the box has ended.
        """
        self.is_usable = False
        self._calls += 1
        number = secrets.token_hex(8)
        sent = {name: getattr(context, name) for name in PLAIN_FIELDS}
        message = {"call": number, "context": sent, "takes_pending": takes_pending}
        budget = Budget(self._process.pid, self.spec.sandbox.cpu_s, seconds)
        self._renew_cpu(budget)
        self._process.send_signal(signal.SIGCONT)
        try:
            answer = self._conversation.call(
                json_frame(message),
                number,
                Asked(context, files, self._relays, self.spec.sandbox.secrets),
                budget,
            )
        except BaseException:
            self.close()
            raise
        self._end_call()
        return answers.value_of(answer)

    def _renew_cpu(self, budget: Budget) -> None:
        """The kernel's own limit, in whole seconds, behind that of the conversation."""
        with suppress(OSError, ValueError):
            hard = resource.prlimit(self.pid, resource.RLIMIT_CPU)[1]
            resource.prlimit(self.pid, resource.RLIMIT_CPU, (budget.kernel_limit_s, hard))

    def _end_call(self) -> None:
        """Use the box again, if nothing but its folder is to be tidied."""
        self._freeze()
        self._relays.close()
        is_clean = self._conversation.is_silent and self._has_one_thread() and self._empty_folder()
        self.is_usable = is_clean and self._calls < MAX_CALLS
        if not self.is_usable:
            self.close()

    def _empty_folder(self) -> bool:
        return self.tmp is None or box_folder.empty(self.tmp)

    def _has_one_thread(self) -> bool:
        try:
            return len(os.listdir(f"/proc/{self.pid}/task")) == 1
        except OSError:
            return False

    def _freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def close(self) -> None:
        """End the process, and delete its folder."""
        self.is_usable = False
        self._process.kill()
        self._process.wait()
        self._relays.close()
        self._conversation.close()
        self._remove_folder()

    def _remove_folder(self) -> None:
        if self._folder is not None:
            if self.tmp is not None and self.tmp.exists():
                box_folder.empty(self.tmp)
            self._folder.remove()
            self._folder = None
