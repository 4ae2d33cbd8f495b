"""Define Sandbox: what a call may use that runs in a box; and read such limits as people write them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeweave.durations import MAX_MS, milliseconds
from pipeweave.errors import FieldError, InvalidTask
from pipeweave.secret_names import problem_of

TMP = "tmp"
"""The word for a folder of the call's own, in `files`."""

DEFAULT_MEMORY = "512M"
DEFAULT_CPU = "60s"
MIN_MEMORY, MAX_MEMORY = 16 * 1024**2, 1024**4
MAX_HOSTS = 50
MAX_SECRETS = 100

MEMORY_EXPECTED = "bytes, or a text such as 512M or 2G, from 16M to 1024G"
CPU_EXPECTED = "seconds, or a text such as 500ms, 10s or 5m"
HOST_EXPECTED = "texts `host:port` such as api.example.com:443"
SECRETS_EXPECTED = f"a list of at most {MAX_SECRETS} names of secrets"
NETWORK_EXPECTED = f"false, or a list of at most {MAX_HOSTS} {HOST_EXPECTED}"

_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
_MEMORY = re.compile(r"([1-9][0-9]{0,14})([KMG]?)(?:i?B)?")
_HOST = re.compile(
    r"((?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?):([0-9]{1,5})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What the call of a task may use that runs in a [box](docs/sandbox.md), a confined process of its own.

    Args:
        memory: how much it may take beside what the interpreter has: bytes, or a text such as `512M`.
        cpu: how much processor time one call may take: seconds, or a text such as `60s`.
        files: `["tmp"]` for a folder of its own (`ctx.temp_dir`, also the current folder); none by default.
        network: False for none; or the only addresses that it may connect to, such as `api.example.com:443`.
        secrets: the only names that it may ask for (`ctx.secret`); none by default. What its params name is
            in its params.

    Raises:
        InvalidTask: one of these is invalid; each FieldError names one of them.
    """

    memory: str | int = DEFAULT_MEMORY
    cpu: str | float = DEFAULT_CPU
    files: Sequence[str] = ()
    network: bool | Sequence[str] = False
    secrets: Sequence[str] = ()

    def __post_init__(self) -> None:
        written = {each: getattr(self, each) for each in MEMBERS}
        if errors := list(mistakes_in(written, "")):
            first = errors[0]
            raise InvalidTask(f"Sandbox: {first.field} {first.message}", errors=errors)
        object.__setattr__(self, "files", tuple(self.files))
        object.__setattr__(self, "secrets", tuple(self.secrets))
        if not isinstance(self.network, bool):
            object.__setattr__(self, "network", tuple(self.network) or False)

    @property
    def memory_bytes(self) -> int:
        """The memory, in bytes."""
        return read_memory(self.memory) or 0

    @property
    def cpu_s(self) -> float:
        """The processor time of one call (s)."""
        return read_cpu(self.cpu) or 0.0

    @property
    def has_tmp(self) -> bool:
        """Whether the call has a folder of its own."""
        return TMP in self.files

    @property
    def hosts(self) -> tuple[str, ...]:
        """The addresses that it may connect to, `host:port`."""
        return () if isinstance(self.network, bool) else tuple(self.network)

    def to_json(self) -> dict[str, Any]:
        """The document of the sandbox, as a step writes it."""
        network = self.network if isinstance(self.network, bool) else list(self.network)
        lists = {"files": list(self.files), "network": network, "secrets": list(self.secrets)}
        return {"memory": self.memory, "cpu": self.cpu, **lists}

    def narrowed(self, written: Mapping[str, Any]) -> Sandbox:
        """The tighter of this and of what a step has written, member by member."""
        other = Sandbox(**written)
        hosts = [each for each in self.hosts if each in other.hosts]
        return Sandbox(
            memory=min(self.memory_bytes, other.memory_bytes) if "memory" in written else self.memory,
            cpu=min(self.cpu_s, other.cpu_s) if "cpu" in written else self.cpu,
            files=[each for each in self.files if "files" not in written or each in other.files],
            network=(hosts or False) if "network" in written else self.network,
            secrets=[each for each in self.secrets if "secrets" not in written or each in other.secrets],
        )


MEMBERS = ("memory", "cpu", "files", "network", "secrets")


def mistakes_in(written: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """What is wrong with the members of a sandbox, as `@task` and a document write them.

    Args:
        path: of the sandbox, with a dot at its end; empty where its members stand alone.
    """
    yield from memory_mistakes(written.get("memory", DEFAULT_MEMORY), f"{path}memory")
    yield from cpu_mistakes(written.get("cpu", DEFAULT_CPU), f"{path}cpu")
    files = written.get("files", ())
    if isinstance(files, str) or not isinstance(files, Sequence) or any(each != TMP for each in files):
        yield FieldError(f"{path}files", f"is {files!r}"[:300], "invalid_value", 'a list: [], or ["tmp"]')
    yield from _network_mistakes(written.get("network", False), f"{path}network")
    yield from _secret_mistakes(written.get("secrets", ()), f"{path}secrets")


def memory_mistakes(value: Any, field: str) -> Iterator[FieldError]:
    """What is wrong with an amount of memory."""
    if read_memory(value) is None:
        yield FieldError(field, f"is {value!r}"[:300], "invalid_value", MEMORY_EXPECTED)


def cpu_mistakes(value: Any, field: str) -> Iterator[FieldError]:
    """What is wrong with an amount of processor time."""
    if read_cpu(value) is None:
        yield FieldError(field, f"is {value!r}"[:300], "invalid_value", CPU_EXPECTED)


def read_memory(value: Any) -> int | None:
    """An amount of memory in bytes; None if it is none, or out of range."""
    if isinstance(value, str) and (match := _MEMORY.fullmatch(value)):
        value = int(match[1]) * _UNITS[match[2]]
    is_amount = isinstance(value, int) and not isinstance(value, bool) and MIN_MEMORY <= value <= MAX_MEMORY
    return value if is_amount else None


def read_cpu(value: Any) -> float | None:
    """An amount of processor time (s); None if it is none, or out of range."""
    ms = milliseconds(value, longest_ms=MAX_MS)
    return None if ms is None or ms < 1 else ms / 1000


def read_host(value: Any) -> tuple[str, int] | None:
    """The name and the port of `host:port`; None if it is none."""
    match = _HOST.fullmatch(value) if isinstance(value, str) and len(value) <= 260 else None
    if match is None or not 1 <= int(match[2]) <= 65_535:
        return None
    return match[1], int(match[2])


def _network_mistakes(value: Any, field: str) -> Iterator[FieldError]:
    if value is False:
        return
    if value is True or isinstance(value, str) or not isinstance(value, Sequence) or len(value) > MAX_HOSTS:
        yield FieldError(field, f"is {value!r}"[:300], "invalid_value", NETWORK_EXPECTED)
        return
    for place, each in enumerate(value):
        if read_host(each) is None:
            yield FieldError(f"{field}[{place}]", f"is {each!r}"[:300], "invalid_value", HOST_EXPECTED)


def _secret_mistakes(value: Any, field: str) -> Iterator[FieldError]:
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) > MAX_SECRETS:
        yield FieldError(field, f"is {value!r}"[:300], "invalid_value", SECRETS_EXPECTED)
        return
    for place, each in enumerate(value):
        if (problem := problem_of(each)) is not None:
            yield FieldError(f"{field}[{place}]", problem, "invalid_value", SECRETS_EXPECTED)
