"""Parses and checks the registration of a service and its tasks."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pipeweave import ids
from pipeweave.authoring import (
    BACKOFFS,
    CODES_EXPECTED,
    FAIL,
    MAX_MULTIPLIER,
    MAX_RETRIES,
    ON_EXHAUSTED,
    QUEUE_EXPECTED,
    are_codes,
    is_queue,
)
from pipeweave.errors import FieldError, InvalidId, InvalidTask
from pipeweave.json_values import json_faults
from pipeweave.labels import LABELS_EXPECTED, Labels, are_labels
from pipeweave.rates import RATE_EXPECTED, is_rate
from pipeweave.schema import validate_schema
from pipeweave.size_limits import MAX_DESCRIPTION, MAX_SPEC_BYTES

MAX_TASKS = 5_000
"""The most tasks of one service."""

MAX_VERSION = 200
"""The most characters of a service's version."""

TOKEN_FORMATS = ("sdk", "pbkdf2")
"""The formats of storage tokens; see pipeweave/storage/tokens.py."""

STORAGE_ACCESSES = ("token", "urls")
"""How an HTTP service reaches values."""

IDEMPOTENCY_TTL_S = 86_400
"""How long a result is valid for its idempotency key (s), if neither task nor deployment says otherwise."""

_TEN_YEARS_S = 315_360_000
_INT32 = 2**31 - 1
_HASH = re.compile(r"[0-9a-f]{16,64}\Z")


@dataclass(frozen=True, slots=True)
class TaskRegistration:
    """A task as its service describes it. Defaults are those of the worker protocol.

    Args:
        id: unique in the tenant.
        code_hash: 16 to 64 lower-case hex characters.
        allowed_next: task ids that may follow it.
        timeout: seconds one attempt may take.
        retries: executions after the first.
        retry_multiplier: factor by which an exponential delay grows.
        retry_jitter: the share of each delay that is random, 0 to 1.
        retry_on: error codes that are retried; None for every retryable error.
        on_exhausted: what follows its last attempt: `fail`, or `pause`, a pause of its run.
        rate_limit: starts per unit of time over all workers, as `100/m`; None for no limit.
        idempotency_ttl: how long a result is valid for its idempotency key (s).
        concurrency: attempts at a time over all workers; 0 for no limit.
        priority: a lower number starts first.
        queue: the name of the queue that its task runs wait in; None for that of the service.
        requires: labels of the workers that may call it; None for any worker.
        input_schema: JSON Schema of the input; see `pipeweave.schema.validation`.
        parameters: of its function, as an input schema that is strict unless any name is taken; None if they
            are not known.
    """

    id: str
    code_hash: str
    allowed_next: Sequence[str] = ()
    timeout: float = 300
    retries: int = 3
    retry_backoff: str = "exponential"
    retry_delay_ms: int = 1_000
    max_retry_delay_ms: int = 86_400_000
    retry_multiplier: float = 2
    retry_jitter: float = 0
    retry_on: Sequence[str] | None = None
    on_exhausted: str = FAIL
    heartbeat_interval_ms: int = 60_000
    concurrency: int = 0
    rate_limit: str | None = None
    priority: int = 100
    queue: str | None = None
    requires: Labels | None = None
    idempotency_ttl: int = IDEMPOTENCY_TTL_S
    description: str | None = None
    input_schema: Mapping[str, Any] | None = None
    parameters: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Registration:
    """A service with all its tasks. When the version changed, tasks that are not named are removed.

    Args:
        service_id: unique in the tenant.
        version: free text, usually the program's version.
        kind: `python` (Celery workers) or `http` (dispatched to `base_url`).
        base_url: where an HTTP service says that it listens.
        address: where dispatches to this instance go, when that is not its `base_url`.
        token_format: in which storage tokens an HTTP service can read: `sdk` or `pbkdf2`.
        storage_access: how an HTTP service reaches values: by a storage `token`, or by signed `urls`.
    """

    service_id: str
    version: str = "0.1.0"
    kind: str = "python"
    base_url: str | None = None
    tasks: Sequence[TaskRegistration] = ()
    address: str | None = None
    token_format: str = "sdk"
    storage_access: str = "token"

    @property
    def target(self) -> str | None:
        """Where dispatches to this instance go."""
        return self.address or self.base_url

    @property
    def digest(self) -> str:
        """A hash of all that it says: the same registration again has the same."""
        return hashlib.sha256(repr(self).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class _Rule:
    attribute: str
    expected: str
    accepts: Callable[[Any], bool]


def _whole(lowest: int, highest: int) -> Callable[[Any], bool]:
    # JSON may write 100 as 100.0. In Python True is an int, so bool is refused.
    return lambda value: (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and lowest <= value <= highest
        and value == int(value)
    )


def _is_text(limit: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and len(value) <= limit and not json_faults(value)


def _number(lowest: float, highest: float) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, int | float) and not isinstance(value, bool) and lowest <= value <= highest
    )


def _is_seconds(value: Any) -> bool:
    return _number(0, _TEN_YEARS_S)(value) and value > 0


def _is_name(value: Any) -> bool:
    try:
        return bool(ids.check_name(value, "id"))
    except InvalidId:
        return False


def _is_task(value: Any) -> bool:
    return _is_name(value) and not value.startswith(ids.ENGINE_TASK_PREFIX)


def _are_names(value: Any) -> bool:
    return (
        isinstance(value, list | tuple) and len(value) <= MAX_TASKS and all(_is_name(each) for each in value)
    )


_NAME = "1 to 200 of the characters A-Z a-z 0-9 . _ ~ : @ -, not only dots"
_MS = f"a whole number of milliseconds from 0 to {_TEN_YEARS_S}000"

RULES: dict[str, _Rule] = {
    "id": _Rule("id", _NAME, _is_task),
    "codeHash": _Rule(
        "code_hash",
        "16 to 64 lower-case hex characters",
        lambda value: isinstance(value, str) and bool(_HASH.match(value)),
    ),
    "allowedNext": _Rule("allowed_next", f"a list of task ids, each {_NAME}", _are_names),
    "timeout": _Rule("timeout", f"seconds above 0, at most {_TEN_YEARS_S}", _is_seconds),
    "retries": _Rule("retries", f"a whole number from 0 to {MAX_RETRIES}", _whole(0, MAX_RETRIES)),
    "retryBackoff": _Rule("retry_backoff", "fixed, linear or exponential", lambda value: value in BACKOFFS),
    "retryDelayMs": _Rule("retry_delay_ms", _MS, _whole(0, _TEN_YEARS_S * 1000)),
    "maxRetryDelayMs": _Rule("max_retry_delay_ms", _MS, _whole(0, _TEN_YEARS_S * 1000)),
    "retryMultiplier": _Rule(
        "retry_multiplier", f"a number from 1 to {MAX_MULTIPLIER}", _number(1, MAX_MULTIPLIER)
    ),
    "retryJitter": _Rule("retry_jitter", "a number from 0 to 1", _number(0, 1)),
    "retryOn": _Rule("retry_on", CODES_EXPECTED, lambda value: value is None or are_codes(value)),
    "onExhausted": _Rule("on_exhausted", "fail or pause", lambda value: value in ON_EXHAUSTED),
    "heartbeatIntervalMs": _Rule(
        "heartbeat_interval_ms", _MS.replace("from 0", "from 1"), _whole(1, _TEN_YEARS_S * 1000)
    ),
    "concurrency": _Rule("concurrency", "a whole number from 0 (no limit)", _whole(0, _INT32)),
    "rateLimit": _Rule("rate_limit", RATE_EXPECTED, lambda value: value is None or is_rate(value)),
    "priority": _Rule("priority", f"a whole number from -{_INT32} to {_INT32}", _whole(-_INT32, _INT32)),
    "queue": _Rule("queue", QUEUE_EXPECTED, lambda value: value is None or is_queue(value)),
    "requires": _Rule("requires", LABELS_EXPECTED, lambda value: value is None or are_labels(value)),
    "idempotencyTTL": _Rule(
        "idempotency_ttl", f"a whole number of seconds from 1 to {_TEN_YEARS_S}", _whole(1, _TEN_YEARS_S)
    ),
    "description": _Rule(
        "description",
        f"a text of at most {MAX_DESCRIPTION} characters",
        lambda value: value is None or _is_text(MAX_DESCRIPTION)(value),
    ),
    "inputSchema": _Rule(
        "input_schema", "an object", lambda value: value is None or isinstance(value, Mapping)
    ),
    "parameters": _Rule("parameters", "an object", lambda value: value is None or isinstance(value, Mapping)),
}
"""Every field of a task in a registration document, with its rule."""

REQUIRED = ("id", "codeHash")
# Further fields that a task may have; they are not stored.
IGNORED = frozenset({"name"})


def parse(
    document: Mapping[str, Any], *, kind: str, idempotency_ttl: int = IDEMPOTENCY_TTL_S
) -> Registration:
    """Parse a registration document {serviceId, version?, baseUrl?, tasks}.

    Args:
        idempotency_ttl: the TTL (s) of tasks that name none.

    Raises:
        InvalidTask: with every wrong or unknown field, as `tasks[3].timeout`.
    """
    tasks = document.get("tasks", [])
    if not isinstance(tasks, list | tuple):
        raise _refused([FieldError("tasks", "must be a list", "invalid_type")])
    faults = [fault for at, task in enumerate(tasks) for fault in _shape_faults(task, f"tasks[{at}]")]
    if faults:
        raise _refused(faults)
    registration = Registration(
        service_id=document.get("serviceId", ""),
        version=document.get("version", "0.1.0"),
        kind=kind,
        base_url=document.get("baseUrl"),
        tasks=[_task({"idempotencyTTL": idempotency_ttl, **task}) for task in tasks],
    )
    check(registration)
    return registration


def check(registration: Registration) -> None:
    """Refuse a registration that is not valid.

    Raises:
        InvalidTask: with a FieldError for each wrong field.
    """
    faults = list(_service_faults(registration))
    seen: set[Any] = set()
    for at, task in enumerate(registration.tasks):
        faults += _task_faults(task, f"tasks[{at}]")
        if registration.kind == "http":
            faults += _faults_of_dispatched(task, f"tasks[{at}]")
        if isinstance(task.id, str) and task.id in seen:
            faults.append(FieldError(f"tasks[{at}].id", f"{task.id!r} is registered twice", "duplicate"))
        seen.add(task.id if isinstance(task.id, str) else None)
    if faults:
        raise _refused(faults)


def _task(document: Mapping[str, Any]) -> TaskRegistration:
    return TaskRegistration(**{RULES[name].attribute: document[name] for name in document if name in RULES})


def _shape_faults(task: Any, field: str) -> Iterator[FieldError]:
    if not isinstance(task, Mapping):
        yield FieldError(field, "must be an object", "invalid_type", "object")
        return
    for name in REQUIRED:
        if name not in task:
            yield FieldError(f"{field}.{name}", "is missing", "required", RULES[name].expected)
    for name in task:
        if name not in RULES and name not in IGNORED:
            near = get_close_matches(str(name), RULES, n=1)
            hint = f", did you mean {near[0]}?" if near else ""
            yield FieldError(f"{field}.{str(name)[:80]}", f"is not a field of a task{hint}", "unknown_field")


def _service_faults(registration: Registration) -> Iterator[FieldError]:
    if not _is_name(registration.service_id):
        yield FieldError("serviceId", f"must be {_NAME}", "invalid_id", _NAME)
    if not registration.version or not _is_text(MAX_VERSION)(registration.version):
        yield FieldError("version", f"must be a text of 1 to {MAX_VERSION} characters")
    if registration.kind not in ("python", "http"):
        yield FieldError("kind", "must be python or http", expected="python or http")
    url = registration.base_url
    is_url = _is_text(2_000)(url) and str(url).startswith(("http://", "https://"))
    if not is_url and (registration.kind == "http" or url is not None):
        yield FieldError("baseUrl", "must be an http or https URL", "invalid", "http://host:port")
    for name, value, choices in (
        ("tokenFormat", registration.token_format, TOKEN_FORMATS),
        ("storageAccess", registration.storage_access, STORAGE_ACCESSES),
    ):
        if value not in choices:
            expected = " or ".join(choices)
            yield FieldError(name, f"must be {expected}", "invalid_enum_value", expected)
    if len(registration.tasks) > MAX_TASKS:
        yield FieldError("tasks", f"a service has at most {MAX_TASKS} tasks", "limit_exceeded")


def _task_faults(task: TaskRegistration, field: str) -> Iterator[FieldError]:
    for name, rule in RULES.items():
        if not rule.accepts(getattr(task, rule.attribute)):
            yield FieldError(f"{field}.{name}", f"must be {rule.expected}", "invalid", rule.expected)
    for name, schema in (("inputSchema", task.input_schema), ("parameters", task.parameters)):
        if isinstance(schema, Mapping):
            yield from _schema_faults(schema, f"{field}.{name}")


def _schema_faults(schema: Mapping[str, Any], field: str) -> Iterator[FieldError]:
    faults = json_faults(schema, field, budget=MAX_SPEC_BYTES)
    yield from faults
    if not faults:
        for fault in validate_schema(schema):
            path = f"{field}.{fault.field}" if fault.field else field
            yield FieldError(path, fault.message, fault.code, fault.expected)


def _faults_of_dispatched(task: TaskRegistration, field: str) -> Iterator[FieldError]:
    """What a task of an HTTP service says that only Celery workers can keep."""
    if task.queue is not None:
        reason = "only tasks of Celery workers have queues: a dispatch waits in no queue of its service"
        yield FieldError(f"{field}.queue", reason, "unsupported", "no queue")
    if task.requires is not None:
        reason = "only Celery workers have labels: what needs other machines is a service of its own"
        yield FieldError(f"{field}.requires", reason, "unsupported", "no labels")


def _refused(faults: Sequence[FieldError]) -> InvalidTask:
    first = faults[0]
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return InvalidTask(f"{first.field}: {first.message}{more}", errors=faults)
