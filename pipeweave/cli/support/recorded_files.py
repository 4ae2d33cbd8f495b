"""Reads recorded runs from files: parts of an archive, and exports of runs, task runs and attempts."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from pipeweave.errors import InvalidInput, LimitExceeded

if TYPE_CHECKING:
    from pipeweave.testing.recorded_run import RecordedRun

# All files together, unpacked (bytes): they are held in memory.
MOST_BYTES = 512 * 1024**2

_GZIP = b"\x1f\x8b"


class _Lines:
    """Runs, and what belongs to them, by the ids of the runs."""

    def __init__(self) -> None:
        self.runs: dict[str, dict[str, Any]] = {}
        self.task_runs: dict[str, list[dict[str, Any]]] = {}
        self.attempts: dict[str, list[dict[str, Any]]] = {}

    def take(self, line: Any) -> bool:
        """Take a line; False if it is none of these."""
        if not isinstance(line, dict):
            return False
        if "taskRuns" in line:  # of an archive
            parts = [line.get("run"), *line["taskRuns"], *line.get("attempts", ())]
            of_run = (
                {**each, "runId": line["runId"]} if "number" in each else each for each in parts if each
            )
            return all([self.take(each) for each in of_run])
        if "number" in line and "taskRunId" in line:
            self.attempts.setdefault(line["taskRunId"], []).append(line)
        elif "stepId" in line and "maxAttempts" in line:
            self.task_runs.setdefault(line["runId"], []).append(line)
        elif "failureMode" in line and "id" in line:
            self.runs[line["id"]] = line
        else:
            return False
        return True

    def with_attempts(self, run_id: str) -> Iterator[dict[str, Any]]:
        for each in self.task_runs.get(run_id, ()):
            ended = {one["number"]: one for one in self.attempts.get(each["id"], ())}
            # The newest attempt is in the task run itself.
            ended.setdefault(each["attempt"], {**each, "number": each["attempt"]})
            yield {**each, "attempts": list(ended.values())}


def runs_of(paths: Iterable[Path]) -> list[RecordedRun]:
    """The runs of files, in their order, with their steps.

    Raises:
        InvalidInput: a file cannot be read, or holds something else, or no run.
        LimitExceeded: the files are too large.
    """
    from pipeweave.testing.recorded_run import RecordedRun

    seen = _Lines()
    left = MOST_BYTES
    for path in paths:
        for number, line in _lines(path):
            left -= len(line)
            if left < 0:
                raise LimitExceeded(
                    f"the files have more than {MOST_BYTES:,} bytes", hint="name fewer files, or export less"
                )
            if not seen.take(_read(path, number, line)):
                raise _refused(path, f"line {number} is no run, task run or attempt")
    if not seen.runs:
        raise InvalidInput(
            "the files hold no run", hint="give an archive, or exports of both runs and task-runs"
        )
    return [RecordedRun.of(run, seen.with_attempts(id)) for id, run in seen.runs.items()]


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            is_packed = file.read(2) == _GZIP
            file.seek(0)
            lines: Iterable[bytes] = gzip.GzipFile(fileobj=file) if is_packed else file
            yield from ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    except (OSError, EOFError, zlib.error) as error:
        raise _refused(path, str(getattr(error, "strerror", None) or error)) from error


def _read(path: Path, number: int, line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise _refused(path, f"line {number} is not JSON: {error}") from error


def _refused(path: Path, why: str) -> InvalidInput:
    return InvalidInput(f"{path}: {why}", hint="give parts of an archive, or files of `pipeweave export`")
