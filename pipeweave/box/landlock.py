"""Has Landlock restrict which files this process may open, for good."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Callable, Iterable
from pathlib import Path

# The same on all architectures.
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_PATH_BENEATH = 1
# linux/landlock.h
WRITE_FILE, READ_FILE, READ_DIR = 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15

READ = READ_FILE | READ_DIR
WRITE = READ | WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _REFER | _TRUNCATE
"""Files and folders, but no links, pipes, sockets and devices."""

# A rule for what is no folder may name these alone; with others the kernel refuses it.
_OF_FILES = WRITE_FILE | READ_FILE | _TRUNCATE | _IOCTL_DEV

Syscall = Callable[..., int]


def version(syscall: Syscall) -> int:
    """The version of Landlock in this kernel.

    Raises:
        OSError: there is none, or it is switched off.
    """
    abi = syscall(_CREATE, None, 0, 1)
    if abi < 1:
        code = ctypes.get_errno()
        why = "is switched off" if code == errno.EOPNOTSUPP else "is missing: Linux 5.13 brought it"
        raise OSError(code, f"Landlock {why}")
    return abi


def _handled(abi: int) -> int:
    """The rights that this version restricts."""
    bits = 13 if abi == 1 else 14 if abi == 2 else 15 if abi < 5 else 16
    return (1 << bits) - 1


def restrict(syscall: Syscall, rules: Iterable[tuple[Path, int]]) -> int:
    """Allow these rights below these paths, and no others. `no_new_privs` must be set.

    Returns:
        The version of Landlock.

    Raises:
        OSError: a path does not exist, or the kernel refused.
    """
    abi = version(syscall)
    handled = _handled(abi)
    attributes = struct.pack("=Q", handled)
    if abi >= 4:
        attributes += struct.pack("=Q", 3)  # bind and connect
    if abi >= 6:
        attributes += struct.pack("=Q", 3)  # abstract sockets and signals, of processes outside
    ruleset = _checked(
        syscall(_CREATE, ctypes.create_string_buffer(attributes, len(attributes)), len(attributes), 0)
    )
    try:
        for path, rights in rules:
            _add(syscall, ruleset, path, rights & handled)
        _checked(syscall(_RESTRICT, ruleset, 0))
    finally:
        os.close(ruleset)
    return abi


def _add(syscall: Syscall, ruleset: int, path: Path, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _OF_FILES
        rule = struct.pack("=Qi", rights, place)
        _checked(syscall(_ADD, ruleset, _PATH_BENEATH, ctypes.create_string_buffer(rule, len(rule)), 0))
    finally:
        os.close(place)


def _checked(returned: int) -> int:
    if returned < 0:
        raise OSError(ctypes.get_errno(), "Landlock refused a rule")
    return returned
