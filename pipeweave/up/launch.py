"""Starting a server process of ours: which binary, as whom, with what in its environment."""

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

# In a launch's arguments: the folder that is handed over.
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
        argv: the program and its arguments; `FOLDER` stands for `folder`.
        environment: the whole of its environment. Secrets belong here, never in `argv`.
        cwd: where it runs.
        account: whom it runs as; None is whoever we are.
        folder: a folder it works in. Another account reaches it through an open descriptor, so that none of
            the folders above it has to be opened up for that account.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    cwd: Path = Path("/")
    account: Account | None = None
    folder: Path | None = None


def server_account(folder: Path) -> Account | None:
    """Whom a server that refuses to run as root runs as: nobody, or whoever already owns its folder."""
    if os.geteuid() != 0:
        return None
    if folder.exists() and (owner := folder.stat()).st_uid != 0:
        return Account(owner.st_uid, owner.st_gid)
    nobody = pwd.getpwnam("nobody")
    return Account(nobody.pw_uid, nobody.pw_gid)


def spawn(
    launch: Launch, output: int | IO[bytes], stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    """Start it in a session of its own, so that the terminal's Ctrl-C reaches only us and we keep the order.

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
    """Run it to its end and return what it printed.

    Raises:
        StartFailed: it ended with an error, or did not end in time.
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
