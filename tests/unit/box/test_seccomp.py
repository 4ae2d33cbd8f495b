"""The filter of system calls, interpreted for every number on both processors."""

from __future__ import annotations

import errno

import pytest

from pipeweave.box import seccomp
from pipeweave.box.seccomp import ARCHITECTURES, IGNORED, Architecture, conditions, program
from pipeweave.box.system_calls import FREELY

PID = 4711
ALLOW, KILL = 0x7FFF0000, 0x80000000
DENY, MISSING, NOTHING = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS, 0x00050000
both = pytest.mark.parametrize("name", sorted(ARCHITECTURES))


def decided(architecture: Architecture, number: int, *arguments: int, audit: int | None = None) -> int:
    """What the filter answers to a call, by the rules of classic BPF."""
    lines = program(architecture, PID)
    memory = {0: number, 4: architecture.audit if audit is None else audit}
    for place in range(6):
        value = arguments[place] if place < len(arguments) else 0
        memory[16 + 8 * place], memory[20 + 8 * place] = value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF
    register = at = 0
    while True:
        code, jump_if, jump_else, value = lines[at]
        at += 1
        match code:
            case 0x20:
                register = memory[value]
            case 0x54:
                register &= value
            case 0x15:
                at += jump_if if register == value else jump_else
            case 0x35:
                at += jump_if if register >= value else jump_else
            case 0x06:
                return value
            case _:
                raise AssertionError(code)


def test_no_call_is_on_two_lists() -> None:
    lists = [FREELY.split(), list(conditions(PID)), list(IGNORED)]
    names = [name for each in lists for name in each]
    assert len(names) == len(set(names))


@both
def test_every_call_that_is_on_no_list_is_refused(name: str) -> None:
    architecture = ARCHITECTURES[name]
    allowed = {number for number in range(1024) if decided(architecture, number) == ALLOW}
    freely = {architecture.calls[each] for each in FREELY.split() if each in architecture.calls}
    listed = freely | {architecture.calls[each] for each in conditions(PID) if each in architecture.calls}
    assert freely <= allowed <= listed


@both
def test_what_is_younger_than_the_lists_does_not_exist(name: str) -> None:
    architecture = ARCHITECTURES[name]
    assert decided(architecture, 435) == MISSING, "clone3, so that libraries use clone"
    assert {decided(architecture, number) for number in range(460, 600)} == {MISSING}
    assert decided(architecture, architecture.calls["execve"]) == DENY


@both
def test_calls_of_other_processors_end_the_process(name: str) -> None:
    architecture = ARCHITECTURES[name]
    assert decided(architecture, 1, audit=0x40000003) == KILL, "32 bits"
    assert decided(architecture, 0x40000000 | 39) == KILL, "x32"


@both
@pytest.mark.parametrize(
    ("call", "arguments", "answer"),
    [
        ("openat", (0, 0, 0), ALLOW),
        ("openat", (0, 0, 0o1101), ALLOW),
        ("openat", (0, 0, 0o1000), DENY),
        ("openat", (0, 0, 0o3), DENY),
        ("clone", (0x3D0F00,), ALLOW),
        ("clone", (17,), DENY),
        ("clone", (0x3D0F00 | 0x10000000,), DENY),
        ("kill", (PID, 9), ALLOW),
        ("kill", (PID + (1 << 32), 9), ALLOW),
        ("kill", (1, 9), DENY),
        ("kill", (0xFFFFFFFF, 9), DENY),
        ("tgkill", (PID, PID, 6), ALLOW),
        ("tgkill", (PID - 1, PID - 1, 6), DENY),
        ("socketpair", (1, 1), ALLOW),
        ("socketpair", (1, 0o2000001), ALLOW),
        ("socketpair", (1, 2), DENY),
        ("socketpair", (2, 1), DENY),
        ("socket", (1, 1), DENY),
        ("sendto", (3, 0, 0, 0, 0), ALLOW),
        ("sendto", (3, 0, 0, 0, 1), DENY),
        ("sendto", (3, 0, 0, 0, 1 << 32), DENY),
        ("prlimit64", (0, 7, 0), ALLOW),
        ("prlimit64", (0, 7, 1 << 40), DENY),
        ("prlimit64", (PID + 1, 7, 0), DENY),
        ("fcntl", (3, 3), ALLOW),
        ("fcntl", (3, 8), DENY),
        ("ioctl", (3, 0x5421), ALLOW),
        ("ioctl", (3, 0x5412), DENY),
        ("ioctl", (3, 0x8901), DENY),
        ("prctl", (15,), ALLOW),
        ("prctl", (1,), DENY),
        ("fchmodat", (), NOTHING),
    ],
)
def test_arguments_decide(name: str, call: str, arguments: tuple[int, ...], answer: int) -> None:
    architecture = ARCHITECTURES[name]
    assert decided(architecture, architecture.calls[call], *arguments) == answer


def test_an_unknown_processor_has_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp.platform, "machine", lambda: "riscv64")
    with pytest.raises(OSError, match="riscv64"):
        seccomp.apply(1, lambda *_: 0)
