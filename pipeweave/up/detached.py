"""`up --detach`: run the stack in a background process, which reports in one line whether it started.

The line is JSON: `{"connection": …, "notes": […]}`, or `{"error": {code, detail, hint}}`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pipeweave.errors import AlreadyUp, PipeWeaveError, PortInUse, StartFailed, Unavailable
from pipeweave.up.folder import DataFolder, StackAddress
from pipeweave.up.options import UpOptions
from pipeweave.up.output import Console, for_owner_alone
from pipeweave.up.stack import Announcement, run

_ERRORS: dict[str, type[PipeWeaveError]] = {
    each.code: each for each in (AlreadyUp, PortInUse, StartFailed, Unavailable)
}
_END_WAIT_S = 30.0


def run_detached(options: UpOptions) -> Announcement:
    """Start the stack in the background and return when it is ready.

    Raises:
        PipeWeaveError: it did not start; see the errors of `stack.run`.
    """
    folder = DataFolder(options.data_dir)
    folder.make()
    log = folder.logs / "supervisor.log"
    with open(log, "ab", opener=for_owner_alone) as errors:
        process = subprocess.Popen(
            (sys.executable, "-P", "-m", __name__),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    try:
        line = _exchange(process, {**asdict(options), "data_dir": str(options.data_dir.absolute())})
    except BaseException:
        # Ctrl-C during the start: the background process stops the processes that it started.
        process.terminate()
        process.wait(_END_WAIT_S)
        raise
    if not line:
        raise StartFailed(
            f"the supervisor ended with exit code {process.wait(_END_WAIT_S)}", hint=f"see {log}"
        )
    return _read(json.loads(line))


def _exchange(process: subprocess.Popen[bytes], options: dict[str, Any]) -> bytes:
    assert process.stdin and process.stdout
    with process.stdin as stdin:
        stdin.write(json.dumps(options).encode())
    with process.stdout as stdout:
        return stdout.readline()


def _read(said: dict[str, Any]) -> Announcement:
    if error := said.get("error"):
        raise _ERRORS.get(error["code"], StartFailed)(error["detail"], hint=error["hint"])
    return Announcement(StackAddress(**said["connection"]), tuple(said["notes"]))


def _main() -> None:
    fields = json.loads(sys.stdin.buffer.read())
    options = replace(UpOptions(**fields), data_dir=Path(fields["data_dir"]), apps=tuple(fields["apps"]))
    try:
        run(options, Console(None), _tell_ready)
    except PipeWeaveError as error:
        _tell({"error": {"code": error.code, "detail": error.detail, "hint": error.hint}})
        sys.exit(1)


def _tell_ready(announcement: Announcement) -> None:
    _tell({"connection": asdict(announcement.connection), "notes": announcement.notes})
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)


def _tell(said: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _main()
