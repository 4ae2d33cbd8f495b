"""Define TaskSpec: a task's checked options, and their JSON form in a registration."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

from pipeweave.authoring.idempotency_keys import KeyOption, key_mistakes
from pipeweave.authoring.retry import RetryPolicy
from pipeweave.durations import DURATION_EXPECTED
from pipeweave.errors import FieldError, InvalidTask
from pipeweave.labels import Labels, label_mistakes
from pipeweave.option_checks import (
    BACKOFFS,
    FAIL,
    MAX_MULTIPLIER,
    MAX_RETRIES,
    ON_EXHAUSTED,
    Backoff,
    OnExhausted,
    choice_mistakes,
    code_mistakes,
    name_mistakes,
    number_mistakes,
    queue_mistakes,
    version_mistakes,
)
from pipeweave.rates import rate_mistakes
from pipeweave.sandbox import Sandbox, cpu_mistakes, memory_mistakes, read_cpu, read_memory
from pipeweave.schema import validate_schema
from pipeweave.size_limits import MAX_DESCRIPTION

_INT = 2**31 - 1

MAX_CONCURRENT = 1_000
"""The most calls of an `async def` task that run at once in one process."""

DEFAULT_CONCURRENT = 200
"""How many calls of an `async def` task run at once in one process, if it does not say."""

_YEAR_S = 366 * 86_400
# Option -> type, smallest and largest value. The upper bounds are the largest values of the columns, or a
# year.
_RANGES: dict[str, tuple[type, float, float]] = {
    "timeout": (float, 0.001, _YEAR_S),
    "retries": (int, 0, MAX_RETRIES),
    "retry_delay_ms": (int, 1, _YEAR_S * 1000),
    "max_retry_delay_ms": (int, 1, _YEAR_S * 1000),
    "retry_multiplier": (float, 1, MAX_MULTIPLIER),
    "retry_jitter": (float, 0, 1),
    "heartbeat_interval_ms": (int, 1, _YEAR_S * 1000),
    "concurrency": (int, 0, _INT),
    "concurrent": (int, 1, MAX_CONCURRENT),
    "priority": (int, -_INT, _INT),
    "idempotency_ttl": (int, 1, 100 * _YEAR_S),
}

_DURATIONS = {
    "timeout": DURATION_EXPECTED,
    "idempotency_ttl": "whole seconds, or a number with a unit such as 30s, 5m, 2h or 7d",
}


# Who gives a number for the kind of growth means the delay itself.
_DELAY = "the delay itself is retry_delay_ms, in milliseconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """A task's options, with the defaults of the worker protocol.

    Args:
        id: the task's id, unique in its tenant.
        code_hash: lower-case hex SHA-256 of the function's source and of `version`.
        name: the function's name, `package.module.function`.
        allowed_next: ids of the tasks that may follow it in derived pipelines.
        timeout: how long an attempt may run, s.
        retries: the number of attempts after the first.
        retry_backoff: `fixed`, `linear` or `exponential`.
        retry_delay_ms: the delay before the first retry, ms.
        max_retry_delay_ms: the longest delay, ms.
        retry_multiplier: the factor by which an exponential delay grows, from 1.
        retry_jitter: the part of each delay that is random, 0 to 1.
        retry_on: the error codes that are retried; None for every retryable error.
        on_exhausted: what follows the last attempt: `fail`, or `pause`, which pauses its run until people
            resume it. A pipeline and its steps may say otherwise; a standalone task always fails.
        heartbeat_interval_ms: the time between two heartbeats, ms.
        concurrency: how many may run at once over all workers; 0 for any number.
        concurrent: how many calls of an `async def` task one process of a worker runs at once, 1 to
            MAX_CONCURRENT; 1 for every other task. 200 by default if the function is `async def`.
        rate_limit: how many may start per unit of time over all workers, e.g. `100/m`; None for any number.
        priority: lower runs first.
        queue: the name of the queue that its task runs wait in (`pipeweave worker --queues`); None or
            `default` for the queue of its service.
        requires: labels of the workers that may call it, such as `{"gpu": "a100"}` (`pipeweave worker
            --label`); None for any worker.
        idempotency_ttl: how long a result is reused for its idempotency key, s; None for the deployment's
            default.
        idempotency_key: a function that computes the key from the call's input and, if it takes two
            arguments, the code version; `inputs` for the code and all that it reads; None for no key.
        description: a text for people; the first line of the docstring by default.
        input_schema: the schema of the input (see `pipeweave.schema`).
        version: a text that stands for the code which the function uses: another version is a new code
            code version. Only the function's own source, with its decorator, counts otherwise.
        memory: how much one call may take beside what its process has: bytes, or a text such as `512M`; None
            for no limit.
        cpu: how much processor time one call may take: seconds, or a text such as `60s`; None for no limit.
        sandbox: what its calls may use, each in a process of its own; None for calls in the worker's process.

    Raises:
        InvalidTask: an option is invalid; each FieldError names one option.
    """

    id: str
    code_hash: str
    name: str | None = None
    allowed_next: tuple[str, ...] = ()
    timeout: float = 300
    retries: int = 3
    retry_backoff: Backoff = "exponential"
    retry_delay_ms: int = 1_000
    max_retry_delay_ms: int = 86_400_000
    retry_multiplier: float = 2
    retry_jitter: float = 0
    retry_on: tuple[str, ...] | None = None
    on_exhausted: OnExhausted = FAIL
    heartbeat_interval_ms: int = 60_000
    concurrency: int = 0
    concurrent: int = 1
    rate_limit: str | None = None
    priority: int = 100
    queue: str | None = None
    requires: Labels | None = None
    idempotency_ttl: int | None = None
    idempotency_key: KeyOption | None = None
    description: str | None = None
    input_schema: Mapping[str, Any] | None = None
    version: str | None = None
    memory: str | int | None = None
    cpu: str | float | None = None
    sandbox: Sandbox | None = None

    def __post_init__(self) -> None:
        errors = list(self._mistakes())
        if errors:
            first = errors[0]
            raise InvalidTask(f"task {str(self.id)[:80]!r}: {first.field} {first.message}", errors=errors)

    def _mistakes(self) -> Iterator[FieldError]:
        yield from name_mistakes(self.id, "id")
        for place, each in enumerate(self.allowed_next):
            yield from name_mistakes(each, f"allowed_next[{place}]")
        for option, (kind, lowest, highest) in _RANGES.items():
            value = getattr(self, option)
            if isinstance(value, str) and option in _DURATIONS:
                expected = _DURATIONS[option]
                yield FieldError(option, f"is {value!r}: use {expected}"[:500], "invalid_value", expected)
            elif option != "idempotency_ttl" or value is not None:
                yield from number_mistakes(value, option, kind, lowest, highest)
        for mistake in choice_mistakes(self.retry_backoff, "retry_backoff", BACKOFFS):
            is_delay = isinstance(self.retry_backoff, (int, float))
            yield replace(mistake, message=f"{mistake.message}; {_DELAY}") if is_delay else mistake
        yield from code_mistakes(self.retry_on, "retry_on")
        yield from choice_mistakes(self.on_exhausted, "on_exhausted", ON_EXHAUSTED)
        yield from rate_mistakes(self.rate_limit, "rate_limit")
        yield from queue_mistakes(self.queue)
        yield from label_mistakes(self.requires)
        yield from key_mistakes(self.idempotency_key)
        yield from version_mistakes(self.version)
        yield from self._mistakes_of_limits()
        if self.description is not None and not isinstance(self.description, str):
            yield FieldError(
                "description", f"must be a text, not {self.description!r}", "invalid_type", "string"
            )
        elif self.description is not None and len(self.description) > MAX_DESCRIPTION:
            yield FieldError("description", f"is longer than {MAX_DESCRIPTION} characters", "too_long")
        if self.input_schema is not None:
            for fault in validate_schema(self.input_schema):
                path = f"input_schema.{fault.field}" if fault.field else "input_schema"
                yield FieldError(path, fault.message, fault.code, fault.expected)

    def _mistakes_of_limits(self) -> Iterator[FieldError]:
        limits = {"memory": self.memory, "cpu": self.cpu}
        for name, mistakes in (("memory", memory_mistakes), ("cpu", cpu_mistakes)):
            if limits[name] is not None:
                yield from mistakes(limits[name], name)
        if self.sandbox is not None and not isinstance(self.sandbox, Sandbox):
            yield FieldError(
                "sandbox", f"is {self.sandbox!r}"[:300], "invalid_type", 'Sandbox(memory="512M", cpu="60s")'
            )
            return
        for name in (each for each, limit in limits.items() if limit is not None):
            if self.sandbox is not None:
                yield FieldError(name, "is set by sandbox, too", "conflict")
            elif self.concurrent > 1:
                expected = "a plain function, or a sandbox"
                yield FieldError(name, "cannot be measured: calls share a process", "unsupported", expected)

    @property
    def has_limits(self) -> bool:
        """Whether its calls have limits of memory or processor time without a sandbox."""
        return self.memory is not None or self.cpu is not None

    @property
    def memory_bytes(self) -> int | None:
        """How much memory one call may take (bytes); None for no limit."""
        return None if self.memory is None else read_memory(self.memory)

    @property
    def cpu_s(self) -> float | None:
        """How much processor time one call may take (s); None for no limit."""
        return None if self.cpu is None else read_cpu(self.cpu)

    @property
    def retry_policy(self) -> RetryPolicy:
        """The delays between the task's attempts, and the errors that are retried."""
        return RetryPolicy(
            self.retry_backoff,
            self.retry_delay_ms,
            self.max_retry_delay_ms,
            self.retry_multiplier,
            self.retry_jitter,
            None if self.retry_on is None else frozenset(self.retry_on),
        )

    def to_registration(self) -> dict[str, Any]:
        """The task's JSON in a registration; options that are not set are left out."""
        shown: dict[str, Any] = {
            "id": self.id,
            "codeHash": self.code_hash,
            "allowedNext": list(self.allowed_next),
            "timeout": self.timeout,
            "retries": self.retries,
            "retryBackoff": self.retry_backoff,
            "retryDelayMs": self.retry_delay_ms,
            "maxRetryDelayMs": self.max_retry_delay_ms,
            "retryMultiplier": self.retry_multiplier,
            "retryJitter": self.retry_jitter,
            "heartbeatIntervalMs": self.heartbeat_interval_ms,
            "concurrency": self.concurrency,
            "priority": self.priority,
        }
        optional = {
            "name": self.name,
            "idempotencyTTL": self.idempotency_ttl,
            "description": self.description,
            "inputSchema": self.input_schema,
            "retryOn": None if self.retry_on is None else list(self.retry_on),
            "onExhausted": None if self.on_exhausted == FAIL else self.on_exhausted,
            "rateLimit": self.rate_limit,
            "queue": self.queue,
            "requires": None if self.requires is None else dict(self.requires),
        }
        return shown | {key: value for key, value in optional.items() if value is not None}


def code_hash(fn: Callable[..., Any], version: object = None) -> str:
    """Lower-case hex SHA-256 of a function's source (dedented) and, if one is given, of a version.

    Functions that it calls are not part of it: nobody could tell which of them matter. If there is no source
    (a shell, `exec`), the byte code and constants are hashed instead; that hash changes with the version of
    Python.
    """
    import inspect
    import textwrap

    try:
        source = textwrap.dedent(inspect.getsource(fn)).encode()
    except (OSError, TypeError):
        code = getattr(fn, "__code__", None)
        source = _code_bytes(code) if isinstance(code, CodeType) else repr(fn).encode()
    suffix = b"" if version is None else b"\0version=" + str(version).encode(errors="surrogatepass")
    return hashlib.sha256(source + suffix).hexdigest()


def _code_bytes(code: CodeType) -> bytes:
    constants = [
        _code_bytes(each)
        if isinstance(each, CodeType)
        # The order of a set of texts differs between processes.
        else repr(sorted(map(repr, each))).encode()
        if isinstance(each, frozenset)
        else repr(each).encode()
        for each in code.co_consts
    ]
    return b"\n".join([code.co_code, repr(code.co_names).encode(), *constants])
