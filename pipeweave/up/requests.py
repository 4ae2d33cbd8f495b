"""Hand requests from other processes to the supervisor of a stack: files in its folder, and a signal.

A request is a JSON file with a verb and the names of processes; the supervisor adds an answer for each of
them. Files need no open port, the folder's permissions say who may ask, and whoever asks sees each answer
when it comes.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from uuid import uuid4

from pipeweave.errors import Conflict, StartFailed, Unavailable
from pipeweave.up import leftovers
from pipeweave.up.folder import DataFolder, write_private
from pipeweave.up.process_requests import ProcessRequest, ProcessVerb

# Tells the supervisor to look into the folder.
SIGNAL = signal.SIGUSR1
_POLL_S = 0.05


class RequestFolder:
    """The supervisor's side: it takes requests and answers them."""

    def __init__(self, folder: DataFolder) -> None:
        self._root = folder.requests
        self._taken: set[Path] = set()

    def open(self) -> None:
        """Make the folder, which says that requests are heard; forget those of an earlier stack."""
        self._root.mkdir(mode=0o700, exist_ok=True)
        self._remove_files()

    def close(self) -> None:
        """Remove the folder."""
        self._remove_files()
        with contextlib.suppress(OSError):
            self._root.rmdir()

    def take(self) -> list[ProcessRequest]:
        """The requests that were not taken yet, oldest first."""
        requests = []
        for file in sorted(self._root.glob("*.json"), key=_age):
            if file not in self._taken and (asked := _asked(file)):
                self._taken.add(file)
                verb, names = asked
                requests.append(ProcessRequest(names, partial(_answer, file, names, {}), verb))
        return requests

    def _remove_files(self) -> None:
        for file in self._root.glob("*"):
            file.unlink(missing_ok=True)


def send(data_dir: Path, verb: ProcessVerb, names: Sequence[str], on_answer: Callable[[str], None]) -> None:
    """Ask the supervisor of a stack to do this to these processes, and wait until it is done.

    Args:
        data_dir: the stack's data directory.
        verb: what is done to them.
        names: of the processes.
        on_answer: called with the name of each process, when it is done.

    Raises:
        Unavailable: no stack runs there, or it stopped meanwhile.
        Conflict: an older version of PipeWeave runs the stack, which does not hear requests.
        StartFailed: a process did not start.
    """
    folder = DataFolder(data_dir)
    holder = folder.holder()
    if holder is None:
        raise Unavailable(f"no stack runs in {data_dir}", hint="start one with `pipeweave up`")
    if not folder.requests.is_dir():
        raise Conflict(
            "the stack is still starting or stopping, or an older version of PipeWeave runs it",
            hint="try again, or use `pipeweave down` and `pipeweave up`",
        )
    file = folder.requests / f"{uuid4()}.json"
    write_private(file, {"verb": verb, "names": list(names), "answers": {}})
    try:
        os.kill(holder, SIGNAL)
        _wait(file, holder, verb, names, on_answer)
    except ProcessLookupError as error:
        raise Unavailable(f"the stack in {data_dir} has stopped") from error
    finally:
        file.unlink(missing_ok=True)


def _wait(
    file: Path, holder: int, verb: ProcessVerb, names: Sequence[str], on_answer: Callable[[str], None]
) -> None:
    born, open_names = leftovers.birth(holder), list(names)
    while open_names:
        answers = _answers(file)
        for name in [each for each in open_names if each in answers]:
            open_names.remove(name)
            if answers[name] is not None:
                raise StartFailed(
                    f"{name} was not {verb.done}: {answers[name]}", hint=f"see `pipeweave logs {name}`"
                )
            on_answer(name)
        if leftovers.birth(holder) != born:
            raise ProcessLookupError
        if open_names:
            time.sleep(_POLL_S)


def _answer(
    file: Path, names: Sequence[str], answers: dict[str, str | None], name: str, problem: str | None
) -> None:
    answers[name] = problem
    # Whoever asked may have gone away.
    if file.exists():
        write_private(file, {"names": list(names), "answers": answers})


def _asked(file: Path) -> tuple[ProcessVerb, list[str]] | None:
    with contextlib.suppress(OSError, ValueError, KeyError):
        document = json.loads(file.read_text())
        return ProcessVerb(document["verb"]), [str(each) for each in document["names"]]
    return None


def _answers(file: Path) -> dict[str, str | None]:
    with contextlib.suppress(OSError, ValueError, KeyError):
        return dict(json.loads(file.read_text())["answers"])
    return {}


def _age(file: Path) -> float:
    with contextlib.suppress(OSError):
        return file.stat().st_mtime
    return 0.0
