"""Start a process: its program, account, environment and working folder."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from pipeweave.errors import StartFailed

# Placeholder in a launch's arguments for its folder.
FOLDER = "{folder}"


@dataclass(frozen=True, slots=True)
class Account:
    """The user and group a process runs as."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start one process.

    Args:
        argv: the program and its arguments; `FOLDER` is replaced by the path of `folder`.
        environment: the complete environment. Secrets belong here, never in `argv`.
        cwd: the working directory.
        account: the account it runs as; None for the current user.
        folder: a folder it works in. Another account gets it as an open descriptor, so that the folders above
            it need not be opened to that account.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    cwd: Path = Path("/")
    account: Account | None = None
    folder: Path | None = None


def server_account(folder: Path) -> Account | None:
    """The account of a server that refuses to run as root: the owner of its folder, or `nobody`.

    None if the current user is not root.
    """
    if os.geteuid() != 0:
        return None
    if folder.exists() and (owner := folder.stat()).st_uid != 0:
        return Account(owner.st_uid, owner.st_gid)
    nobody = pwd.getpwnam("nobody")
    return Account(nobody.pw_uid, nobody.pw_gid)


def spawn(
    launch: Launch, output: int | IO[bytes], stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    """Start the process in its own session, so that the terminal's Ctrl-C reaches only the supervisor.

    Raises:
        StartFailed: the program cannot be executed.
    """
    with _arguments(launch) as (argv, descriptors):
        try:
            return subprocess.Popen(
                argv,
                stdin=stdin,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=launch.cwd,
                env=dict(launch.environment),
                pass_fds=descriptors,
                user=launch.account.uid if launch.account else None,
                group=launch.account.gid if launch.account else None,
                extra_groups=[] if launch.account else None,
            )
        except OSError as error:
            raise StartFailed(f"{launch.argv[0]} cannot be started: {error.strerror}") from error


def run(launch: Launch, sent: str = "", timeout_s: float = 60) -> str:
    """Run the process to its end and return its output.

    Raises:
        StartFailed: it failed, or did not end in time.
    """
    process = spawn(launch, subprocess.PIPE, subprocess.PIPE)
    name = Path(launch.argv[0]).name
    try:
        printed = process.communicate(sent.encode(), timeout=timeout_s)[0].decode(errors="replace")
    except subprocess.TimeoutExpired as error:
        process.kill()
        process.communicate()
        raise StartFailed(f"{name} did not end within {timeout_s:g} s") from error
    if process.returncode:
        raise StartFailed(f"{name} failed ({process.returncode}): {printed.strip()[-2000:]}")
    return printed


@contextmanager
def _arguments(launch: Launch) -> Iterator[tuple[list[str], tuple[int, ...]]]:
    if launch.folder is None:
        yield list(launch.argv), ()
    elif launch.account is None or not os.path.isdir("/proc/self/fd"):
        yield [part.replace(FOLDER, str(launch.folder)) for part in launch.argv], ()
    else:
        descriptor = os.open(launch.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            path = f"/proc/self/fd/{descriptor}"
            yield [part.replace(FOLDER, path) for part in launch.argv], (descriptor,)
        finally:
            os.close(descriptor)
