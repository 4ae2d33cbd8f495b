"""Builds the seccomp filter of a box, and has the kernel apply it.

It is a list of what is allowed; everything else is refused (EPERM), and what is younger than this list does
not exist (ENOSYS), so that libraries fall back to older calls. A call of another architecture kills the
process. docs/decisions/0083-own-seccomp-and-landlock.md says why it is written here.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pipeweave.box.system_calls import AARCH64, FREELY, X86_64, numbers

# linux/bpf_common.h and linux/seccomp.h
_LOAD, _AND, _IS, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_ERRNO = 0x00050000
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
# Offsets in struct seccomp_data, little-endian.
_NR, _ARCH, _ARGS = 0, 4, 16
# Calls of x32 have this bit, beside the numbers of x86-64.
_X32 = 0x40000000
# From this number on, all architectures share the numbers, and libraries know older calls.
_YOUNG = 424


@dataclass(frozen=True, slots=True)
class Architecture:
    """A processor that filters are written for.

    Args:
        audit: its AUDIT_ARCH.
        calls: numbers by name.
    """

    audit: int
    calls: Mapping[str, int]


ARCHITECTURES = {
    "x86_64": Architecture(0xC000003E, numbers(X86_64)),
    "aarch64": Architecture(0xC00000B7, numbers(AARCH64)),
}


@dataclass(frozen=True, slots=True)
class Where:
    """Allows a call where `argument & mask` is one of these values.

    Args:
        argument: its place, from 0. Of its 64 bits, the lower 32 count, unless `is_whole`.
    """

    argument: int
    values: tuple[int, ...]
    mask: int = 0xFFFFFFFF
    is_whole: bool = False


def conditions(pid: int) -> dict[str, tuple[Where, ...]]:
    """Calls that are allowed with some arguments only, in the process with this id."""
    opened = (
        0,
        1,
        2,
        0x201,
        0x202,
    )  # O_TRUNC only where the file is opened for writing, which Landlock guards
    return {
        "open": (Where(1, opened, 0x203),),
        "openat": (Where(2, opened, 0x203),),
        # A stream: a datagram could be sent to a socket elsewhere.
        "socketpair": (Where(0, (1,)), Where(1, (1,), 0xF)),
        "sendto": (Where(4, (0,), is_whole=True),),
        "setsockopt": (Where(1, (1,)), Where(2, (2, 4, 7, 8, 9, 13, 18, 19, 20, 21))),
        "kill": (Where(0, (pid,)),),
        "tgkill": (Where(0, (pid,)),),
        # A thread, and no process and no namespace.
        "clone": (Where(0, (0x10000,), 0x7E030000),),
        # To read one's own limits.
        "prlimit64": (Where(0, (0, pid)), Where(2, (0,), is_whole=True)),
        # PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE, PR_CAPBSET_READ, PR_GET_NO_NEW_PRIVS
        "prctl": (Where(0, (15, 16, 3, 23, 39)),),
        # No F_SETOWN and F_SETSIG: with them the kernel sends signals to others.
        "fcntl": (Where(1, (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1032)),),
        # TCGETS, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
        "ioctl": (Where(1, (0x5401, 0x541B, 0x5421, 0x5450, 0x5451)),),
    }


# They do nothing and say that they did: Landlock does not guard the rights and times of files, and copying or
# unpacking a file sets them.
IGNORED = ("chmod", "fchmod", "fchmodat", "fchmodat2", "utime", "utimes", "utimensat", "futimesat")


def program(architecture: Architecture, pid: int) -> list[tuple[int, int, int, int]]:
    """The filter: instructions of classic BPF, each with its code, its two jumps and its value."""
    calls = architecture.calls
    lines = [
        (_LOAD, 0, 0, _ARCH),
        (_IS, 1, 0, architecture.audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NR),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _KILL),
    ]
    for name in FREELY.split():
        if name in calls:
            lines += _case(calls[name], [(_RETURN, 0, 0, _ALLOW)])
    for name, wheres in conditions(pid).items():
        if name in calls:
            lines += _case(calls[name], _body(wheres))
    for name in IGNORED:
        if name in calls:
            lines += _case(calls[name], [(_RETURN, 0, 0, _ERRNO)])
    return [
        *lines,
        (_AT_LEAST, 0, 1, _YOUNG),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
    ]


def _case(number: int, body: list[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    return [(_IS, 0, len(body), number), *body]


def _body(wheres: Iterable[Where]) -> list[tuple[int, int, int, int]]:
    """Return ALLOW where all conditions hold, else EPERM; the number of the call is lost meanwhile."""
    lines: list[tuple[int, int, int, int]] = []
    for each in wheres:
        lines += _check(_ARGS + 8 * each.argument, each.values, each.mask)
        if each.is_whole:
            lines += _check(_ARGS + 8 * each.argument + 4, (0,), 0xFFFFFFFF)
    return [*lines, (_RETURN, 0, 0, _ALLOW)]


def _check(offset: int, values: tuple[int, ...], mask: int) -> list[tuple[int, int, int, int]]:
    lines = [(_LOAD, 0, 0, offset), (_AND, 0, 0, mask)]
    for place, value in enumerate(values):
        lines.append((_IS, len(values) - place, 0, value))
    return [*lines, (_RETURN, 0, 0, _ERRNO | errno.EPERM)]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def apply(pid: int, prctl: Callable[..., int]) -> None:
    """Have the kernel apply the filter to this thread, for good. `no_new_privs` must be set.

    Raises:
        OSError: the kernel refused it, or there is no filter for this processor.
    """
    architecture = ARCHITECTURES.get(platform.machine())
    if architecture is None:
        raise OSError(errno.ENOTSUP, f"there is no filter of system calls for {platform.machine()!r}")
    lines = program(architecture, pid)
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in lines))
    pointer = _Program(len(lines), ctypes.cast(code, ctypes.c_void_p))
    if prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(pointer), 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel refused the filter of system calls")
