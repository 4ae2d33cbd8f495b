"""What is wrong with a registration, and what looks wrong: the rules of docs/http-workers.md.

A test compares them with the orchestrator's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pipeweave import ids
from pipeweave.authoring import BACKOFFS, MAX_RETRIES
from pipeweave.errors import InvalidId
from pipeweave.schema import validate_schema
from pipeweave.suggestions import nearest

TOKEN_FORMATS = ("sdk", "pbkdf2")
STORAGE_ACCESSES = ("token", "urls")

_HASH = re.compile(r"(?:sha256:)?[0-9a-f]{16,64}\Z")
# No user, query or fragment: the paths of tasks are appended.
_URL = re.compile(
    r"https?://([A-Za-z0-9._~-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?"
    r"(/[A-Za-z0-9._~%!$&'()*+,;=:@/-]{0,1400})?\Z"
)
_TEN_YEARS_S = 315_360_000
_INT32 = 2**31 - 1
_NAME = "1 to 200 of the characters A-Z a-z 0-9 . _ ~ : @ -, not only dots"


@dataclass(frozen=True, slots=True)
class _AnswerRule:
    expected: str
    accepts: Callable[[Any], bool]


def _whole(lowest: int, highest: int) -> Callable[[Any], bool]:
    return lambda value: _is_number(value) and lowest <= value <= highest and value == int(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_name(value: Any) -> bool:
    try:
        return bool(ids.check_name(value, "id"))
    except InvalidId:
        return False


_MS = "a whole number of milliseconds"
_TASK_RULES: Mapping[str, _AnswerRule] = {
    "id": _AnswerRule(_NAME, _is_name),
    "codeHash": _AnswerRule(
        "16 to 64 lower-case hexadecimal characters",
        lambda value: isinstance(value, str) and bool(_HASH.match(value)),
    ),
    "allowedNext": _AnswerRule(
        "a list of task ids", lambda value: isinstance(value, list) and all(map(_is_name, value))
    ),
    "timeout": _AnswerRule(
        "a number of seconds above 0", lambda value: _is_number(value) and 0 < value <= _TEN_YEARS_S
    ),
    "retries": _AnswerRule(f"a whole number from 0 to {MAX_RETRIES}", _whole(0, MAX_RETRIES)),
    "retryBackoff": _AnswerRule("fixed, linear or exponential", lambda value: value in BACKOFFS),
    "retryDelayMs": _AnswerRule(_MS, _whole(0, _TEN_YEARS_S * 1000)),
    "maxRetryDelayMs": _AnswerRule(_MS, _whole(0, _TEN_YEARS_S * 1000)),
    "heartbeatIntervalMs": _AnswerRule(f"{_MS} above 0", _whole(1, _TEN_YEARS_S * 1000)),
    "concurrency": _AnswerRule("a whole number from 0 (no limit)", _whole(0, _INT32)),
    "priority": _AnswerRule("a whole number", _whole(-_INT32, _INT32)),
    "idempotencyTTL": _AnswerRule("a whole number of seconds from 1", _whole(1, _TEN_YEARS_S)),
    "description": _AnswerRule(
        "a text of at most 10,000 characters", lambda value: isinstance(value, str) and len(value) <= 10_000
    ),
    "inputSchema": _AnswerRule("a JSON schema of an object", lambda value: isinstance(value, dict)),
}
# Further fields that the orchestrator knows; it checks them itself.
_OTHERS = frozenset(
    (
        *("onExhausted", "parameters", "queue", "requires"),
        *("rateLimit", "retryJitter", "retryMultiplier", "retryOn"),
    )
)
_REQUIRED = ("id", "codeHash")
_SERVICE_FIELDS = frozenset(
    {"serviceId", "version", "baseUrl", "tasks", "tokenFormat", "storageAccess", "kind"}
)
# Below (above) such a value a number of this unit was probably meant in the other one.
_LIKELY_SECONDS_BELOW_MS = {"heartbeatIntervalMs": 100, "retryDelayMs": 10, "maxRetryDelayMs": 100}
_LIKELY_MS_ABOVE_S = 200_000


def faults(document: Any) -> list[str]:
    """Everything for which the orchestrator refuses a registration, each as a sentence about a field."""
    if not isinstance(document, dict):
        return ["the body must be a JSON object"]
    tasks = document.get("tasks")
    if not isinstance(tasks, list):
        return [*_service_faults(document), "tasks must be a list"]
    flat = [flattened(task) for task in tasks]
    return [
        *_service_faults(document),
        *(fault for at, task in enumerate(flat) for fault in _task_faults(task, f"tasks[{at}]")),
        *_repeated(flat),
    ]


def flattened(task: Any) -> Any:
    """A task with its options beside its id, where they are under `config`."""
    if not isinstance(task, dict) or "taskId" not in task or not isinstance(task.get("config", {}), dict):
        return task
    rest = {name: value for name, value in task.items() if name not in ("taskId", "config")}
    return {"id": task["taskId"], **rest, **task.get("config", {})}


def doubts(document: Mapping[str, Any]) -> list[str]:
    """What is allowed and is probably a mistake; for a registration without faults."""
    tasks = map(flattened, document["tasks"])
    return [doubt for at, task in enumerate(tasks) for doubt in _unit_doubts(task, f"tasks[{at}]")]


def _service_faults(document: Mapping[str, Any]) -> Iterator[str]:
    if not _is_name(document.get("serviceId")):
        yield f"serviceId must be {_NAME}"
    version = document.get("version", "0.1.0")
    if not isinstance(version, str) or not 0 < len(version) <= 200:
        yield "version must be a text of 1 to 200 characters"
    if not _is_url(document.get("baseUrl")):
        yield "baseUrl must be an http or https URL, such as http://10.0.0.7:8080"
    for name, known in (("tokenFormat", TOKEN_FORMATS), ("storageAccess", STORAGE_ACCESSES)):
        if document.get(name, known[0]) not in known:
            yield f"{name} must be {' or '.join(known)}, or absent"
    yield from (_unknown(name, _SERVICE_FIELDS) for name in document.keys() - _SERVICE_FIELDS)


def _is_url(value: Any) -> bool:
    if not isinstance(value, str) or not _URL.match(value):
        return False
    try:
        _ = urlsplit(value).port
    except ValueError:
        return False
    return True


def _task_faults(task: Any, field: str) -> Iterator[str]:
    if not isinstance(task, dict):
        yield f"{field} must be an object"
        return
    for name in _REQUIRED:
        if name not in task:
            yield f"{field}.{name} is missing; it must be {_TASK_RULES[name].expected}"
    for name, value in task.items():
        rule = _TASK_RULES.get(name)
        if rule is None and name not in _OTHERS:
            yield f"{field}.{_unknown(name, _TASK_RULES.keys() | _OTHERS)}"
        elif rule is not None and not rule.accepts(value):
            yield f"{field}.{name} must be {rule.expected}, and is {str(value)[:40]!r}"
    schema = task.get("inputSchema")
    if isinstance(schema, dict):
        yield from (f"{field}.inputSchema: {each.field} {each.message}" for each in validate_schema(schema))


def _repeated(tasks: list[Any]) -> Iterator[str]:
    seen: set[str] = set()
    for task in tasks:
        name = task.get("id") if isinstance(task, dict) else None
        if isinstance(name, str):
            if name in seen:
                yield f"the task {name!r} is registered twice"
            seen.add(name)


def _unit_doubts(task: Mapping[str, Any], field: str) -> Iterator[str]:
    for name, least in _LIKELY_SECONDS_BELOW_MS.items():
        if 0 < task.get(name, least) < least:
            yield f"{field}.{name} is in milliseconds, and {task[name]} looks like seconds"
    if task.get("timeout", 0) > _LIKELY_MS_ABOVE_S:
        yield f"{field}.timeout is in seconds, and {task['timeout']} looks like milliseconds"


def _unknown(name: str, known: frozenset[str] | set[str]) -> str:
    near = nearest(name, known)
    return f"{name} is not a known field" + (f"; did you mean {near}?" if near else "")
