"""A whole stack for tests: `pipeweave up` in a folder of its own, driven by its command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from pipeweave import Client
from pipeweave.client.models import Document
from pipeweave.errors import Unavailable
from pipeweave.settings import environment
from pipeweave.up import control
from pipeweave.up.processes import ProcessRow
from support.servers import wait_until
from support.terminal import in_terminal

COMMAND_DEADLINE_S = 180

TASKS = """
from pipeweave import task


@task
def greet(name: str) -> str:
    return f"hello {name}"
"""


class StackFolder:
    """A folder with a `tasks.py` in which `pipeweave` commands run.

    Args:
        folder: the working directory.
        prefix: what stands before `-m pipeweave.cli` on the command line.
        variables: the whole environment; the test's own when None.
    """

    def __init__(
        self,
        folder: Path,
        prefix: Sequence[str] = (sys.executable,),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.data = folder / ".pipeweave"
        self._prefix = tuple(prefix)
        self._variables = dict(environment() if variables is None else variables)

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            self._argv(arguments),
            cwd=self.folder,
            env=self._variables,
            capture_output=True,
            text=True,
            timeout=COMMAND_DEADLINE_S,
        )

    def in_terminal(self, *arguments: str, columns: int = 80) -> str:
        """Run a command to its end in a terminal, and return what it shows."""
        return in_terminal(self._argv(arguments), cwd=self.folder, env=self._variables, columns=columns)

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command and leave it running."""
        return subprocess.Popen(
            self._argv(arguments),
            cwd=self.folder,
            env=self._variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def up(self, *arguments: str) -> None:
        """Have the stack ready in the background, on a free port and without Flower."""
        done = self.call("up", "--port", "0", "--no-flower", "--detach", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr + self.logs()

    def down(self) -> subprocess.CompletedProcess[str]:
        """Stop it."""
        return self.call("down")

    def ps(self) -> dict[str, dict[str, Any]]:
        """Its processes by name."""
        return {row["name"]: row for row in json.loads(self.call("ps", "--json").stdout)}

    def process(self, name: str) -> ProcessRow | None:
        """What `ps` shows of a process, for a test that looks often: without the cost of a command."""
        return next((row for row in control.processes(self.data) or () if row.name == name), None)

    def family(self) -> list[psutil.Process]:
        """Everything that runs: the supervisor and what it started."""
        supervisor = self.supervisor()
        return [supervisor, *supervisor.children(recursive=True)]

    def greeting(self, name: str) -> str:
        """What its task `greet` answers."""
        with self.client() as client:
            run_id = _accepted(client, name)
            wait_until(lambda: client.task_run(run_id)["status"] in ("completed", "failed"))
            return str(client.task_run(run_id)["output"])

    def connection(self) -> dict[str, str]:
        """How to reach it."""
        found: dict[str, str] = json.loads((self.data / "connection.json").read_text())
        return found

    def client(self) -> Client:
        """A client with its token."""
        found = self.connection()
        return Client(found["url"], found["token"], found["tenant"])

    def supervisor(self) -> psutil.Process:
        """The process that keeps the others running."""
        return psutil.Process(int((self.data / "run" / "lock").read_text()))

    def logs(self) -> str:
        """The last lines of every log, for a test that fails."""
        files = sorted((self.data / "logs").glob("*.log"))
        return "".join(f"\n--- {file.name}\n{file.read_text()[-2000:]}" for file in files)

    def _argv(self, arguments: Sequence[str]) -> list[str]:
        return [*self._prefix, "-m", "pipeweave.cli", *arguments]


def _accepted(client: Client, name: str) -> str:
    accepted: list[Document] = []

    def is_accepted() -> bool:
        # A server that was killed runs before it answers; until then the API says 503 and "ask again".
        with suppress(Unavailable):
            accepted.append(client.queue("greet", {"name": name}))
        return bool(accepted)

    wait_until(is_accepted, what="nothing new is accepted")
    return str(accepted[0]["runId"])


def are_gone(processes: list[psutil.Process]) -> bool:
    """Whether all of them have ended."""
    return not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in processes)


@contextmanager
def running_stack(folder: Path, *arguments: str, tasks: str = TASKS) -> Iterator[StackFolder]:
    """A stack that is up, with these tasks; down at the end."""
    (folder / "tasks.py").write_text(tasks)
    stack = StackFolder(folder)
    try:
        stack.up(*arguments)
        yield stack
    finally:
        stack.down()
