"""Confines this process, for good, before it loads code of users. Each step must succeed, or none counts."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeweave.box import landlock, readable, seccomp

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_SET_DUMPABLE = 1, 38, 4
# linux/capability.h: version 3, of this process; no capability of any kind.
_CAPABILITIES = struct.pack("=IiIIIIII", 0x20080522, 0, 0, 0, 0, 0, 0, 0)

MAX_FILE_BYTES = 1024**3
MAX_DESCRIPTORS = 256
# Of all processes of the account: a box starts none, its threads count.
MAX_THREADS = 4_096


class ConfinementFailed(Exception):
    """The process is not confined; it must end."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """What a box may use.

    Args:
        memory: bytes beside what the interpreter has already.
        tmp: its own folder, which is also the current one; None for none.
        code_roots: folders whose modules it may import.
        readable: folders that it may read as a whole.
        parent: the process that must live for the box to live.
    """

    memory: int
    tmp: Path | None
    code_roots: tuple[Path, ...]
    readable: tuple[Path, ...]
    parent: int


def confine(confinement: Confinement) -> int:
    """Confine this process.

    Returns:
        The version of Landlock.

    Raises:
        ConfinementFailed: one step could not be done.
    """
    try:
        return _confine(confinement)
    except (OSError, ValueError, AttributeError, ImportError) as error:
        raise ConfinementFailed(str(error)) from error


def reason_against() -> str | None:
    """Why no process of this machine can be confined; None if it can, as far as one can tell before."""
    if not sys.platform.startswith("linux"):
        return f"{sys.platform} has no Landlock: sandboxes need Linux"
    if os.uname().machine not in seccomp.ARCHITECTURES:
        return f"there is no filter of system calls for {os.uname().machine!r}"
    try:
        landlock.version(ctypes.CDLL(None, use_errno=True).syscall)
    except (OSError, AttributeError) as error:
        return getattr(error, "strerror", None) or str(error)
    return None


def _confine(confinement: Confinement) -> int:
    if threading.active_count() > 1:
        raise OSError("the process has threads that would not be confined")
    if reason := reason_against():
        raise OSError(reason)
    libc = ctypes.CDLL(None, use_errno=True)
    _die_with(confinement.parent, libc)
    _limit(confinement.memory)
    _call(libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "PR_SET_DUMPABLE")
    _drop_capabilities(libc)
    _call(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS")
    os.chdir(confinement.tmp or "/")
    abi = landlock.restrict(libc.syscall, _rules(confinement))
    seccomp.apply(os.getpid(), libc.prctl)
    _prove()
    return abi


def _die_with(parent: int, libc: ctypes.CDLL) -> None:
    _call(libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0), "PR_SET_PDEATHSIG")
    if os.getppid() != parent:
        raise OSError("the worker is gone")


def _limit(memory: int) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    space = pages * resource.getpagesize() + memory
    limits = {
        resource.RLIMIT_AS: space,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: MAX_FILE_BYTES,
        resource.RLIMIT_NOFILE: MAX_DESCRIPTORS,
        resource.RLIMIT_NPROC: MAX_THREADS,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    for each, most in limits.items():
        hard = resource.getrlimit(each)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(each, (most, most))


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    header = ctypes.create_string_buffer(_CAPABILITIES[:8], 8)
    sets = ctypes.create_string_buffer(_CAPABILITIES[8:], 24)
    _call(libc.capset(header, sets), "capset")


def _rules(confinement: Confinement) -> Iterator[tuple[Path, int]]:
    for path in readable.of_interpreter():
        yield path, landlock.READ
    yield Path(os.devnull), landlock.READ_FILE | landlock.WRITE_FILE
    for path in confinement.readable:
        yield path, landlock.READ
    for root in (*readable.of_path(), *confinement.code_roots):
        yield from readable.of_modules(root)
    if confinement.tmp is not None:
        yield confinement.tmp, landlock.WRITE


def _prove() -> None:
    """Try what must be refused now."""
    for what, attempt in {
        "it can open the files of processes": lambda: os.close(os.open("/proc/self/environ", os.O_RDONLY)),
        "it can list the root folder": lambda: os.listdir("/"),
        "it can make sockets": lambda: socket.socket().close(),
        "it can start processes": _fork,
    }.items():
        try:
            attempt()
        except PermissionError:
            continue
        except OSError:
            pass
        raise OSError(f"the process is not confined: {what}")


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)


def _call(returned: int, what: str) -> None:
    if returned != 0:
        raise OSError(ctypes.get_errno(), f"the kernel refused {what}")
