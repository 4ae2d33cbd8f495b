"""JSON schemas of pipeline documents and input schemas, for the OpenAPI document only.

Requests are checked by `pipeweave/spec` and `pipeweave/schema`, which give better errors.
"""

from __future__ import annotations

from typing import Any

from pipeweave.authoring import (
    BACKOFFS,
    MAX_CODE,
    MAX_CODES,
    MAX_MULTIPLIER,
    MAX_RETRIES,
    ON_EXHAUSTED,
    QUEUE_PATTERN,
)
from pipeweave.durations import DURATION_PATTERN, MAX_MS
from pipeweave.ids import MAX_NAME_LENGTH, NAME_PATTERN
from pipeweave.labels import LABEL_NAME_PATTERN, LABEL_PATTERN, MAX_LABELS
from pipeweave.rates import RATE_PATTERN
from pipeweave.sandbox import MAX_HOSTS, TMP
from pipeweave.schema import TYPES
from pipeweave.size_limits import MAX_DESCRIPTION, MAX_STEPS
from pipeweave.spec import CODES, FAILURE_MODES, HOOK_NAMES
from pipeweave.spec.child_calls import MAX_ERROR_RULES
from pipeweave.spec.declared_schedule import MISSED_POLICIES, OVERLAP_POLICIES
from pipeweave.spec.document_engine_steps import MAX_CASES
from pipeweave.spec.expressions.bounds import MAX_CHARS
from pipeweave.spec.hooks import MAX_HOOKS, URL_PATTERN
from pipeweave.spec.run_limits import MAX_LIMIT, ON_LIMIT
from pipeweave.spec.timetable import (
    MAX_CRON_CHARS,
    MAX_EVERY_MS,
    MAX_JITTER_MS,
    MAX_ZONE_CHARS,
    MIN_EVERY_MS,
)

_NAME = {"type": "string", "pattern": NAME_PATTERN, "maxLength": MAX_NAME_LENGTH}
_TEXT = {"type": "string", "minLength": 1}
_OVER = {
    "anyOf": [{"type": "array"}, {"type": "string", "pattern": r"\$\{"}],
    "description": "A list, or a reference to one: `${steps.list_files.paths}`.",
}

_DURATION = {
    "anyOf": [
        {"type": "null"},
        {"type": "number", "minimum": 0.001, "maximum": MAX_MS / 1_000},
        {"type": "string", "pattern": DURATION_PATTERN},
    ]
}
_DURATION_MS = {"type": ["integer", "null"], "minimum": 1, "maximum": MAX_MS}

_CONDITION = {"type": "string", "minLength": 1, "maxLength": MAX_CHARS}
_CONDITION_OR_NONE = {**_CONDITION, "type": ["string", "null"]}
_TEXTS = {"type": "array", "items": _TEXT}
_RETRY: dict[str, Any] = {
    "type": ["object", "null"],
    "additionalProperties": False,
    "description": "How often and when it is retried, in place of its task's policy. {}: three attempts.",
    "properties": {
        "attempts": {"type": "integer", "minimum": 1, "maximum": MAX_RETRIES + 1},
        "backoff": {"enum": list(BACKOFFS)},
        "multiplier": {"type": "number", "minimum": 1, "maximum": MAX_MULTIPLIER},
        "jitter": {"type": "number", "minimum": 0, "maximum": 1},
        **{name: {"type": "integer", "minimum": 1, "maximum": MAX_MS} for name in ("delayMs", "maxDelayMs")},
        "retryOn": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_CODES,
            "items": {"type": "string", "minLength": 1, "maxLength": MAX_CODE},
        },
    },
}
_JOIN = {
    "description": "When it runs after several predecessors.",
    "anyOf": [
        {"enum": ["all", "all-done", "any", None]},
        {
            "type": "object",
            "required": ["atLeast"],
            "additionalProperties": False,
            "properties": {"atLeast": {"type": "integer", "minimum": 1}},
        },
    ],
}
_CASE = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "condition": {**_CONDITION_OR_NONE, "description": "Absent: the default, which is the last case."},
        "name": {"type": ["string", "null"], "minLength": 1},
        "steps": {"type": ["array", "null"], "description": "The steps of the branch."},
        "next": {"type": ["array", "null"], "items": _NAME, "description": "Its first steps, by id."},
    },
}
_CHILD: dict[str, Any] = {
    "anyOf": [
        _NAME,
        {
            "type": "object",
            "required": ["id"],
            "additionalProperties": False,
            "properties": {"id": _NAME, "version": {"type": ["integer", "null"], "minimum": 1}},
        },
    ]
}


def _call(description: str, **more: Any) -> dict[str, Any]:
    """A pipeline that runs when something has happened, with its params."""
    properties = {"pipeline": _CHILD, "params": {"type": ["object", "null"]}, **more}
    call = {
        "type": "object",
        "required": ["pipeline"],
        "additionalProperties": False,
        "properties": properties,
    }
    return {"anyOf": [_NAME, call, {"type": "null"}], "description": description}


_HANDLED = {
    "type": ["boolean", "null"],
    "description": "false: the step fails all the same, after what runs here.",
}
_ERROR_RULES: dict[str, Any] = {
    "type": ["array", "null"],
    "maxItems": MAX_ERROR_RULES,
    "items": {
        "anyOf": _call("", condition=_CONDITION_OR_NONE, handled=_HANDLED)["anyOf"][:2],
        "description": "Runs for the errors for which its condition is true.",
    },
    "description": "The first that fits runs when a step without `onError` has failed.",
}
# What the engine decides itself, in place of a task.
_DEEDS: dict[str, Any] = {
    "adapter": {**_NAME, "description": "With `action`: the task `adapter.action`."},
    "action": _NAME,
    "choice": {"type": "array", "minItems": 1, "maxItems": MAX_CASES, "items": _CASE},
    "transform": {"description": "A value with expressions, or an object of `output` and `failIf`."},
    "gather": {**_TEXTS, "minItems": 1, "description": "The steps whose ends it gathers."},
    "sleep": {"description": "How long: seconds, a duration, or an expression in `${…}`."},
    "sleepMs": {"type": "integer", "minimum": 1, "maximum": MAX_MS},
    "sleepUntil": {**_TEXT, "description": "A time with its zone, or an expression in `${…}`."},
    "signal": {"description": "A name, a list of names, or {names, timeout, default}."},
    "approval": {"type": "object", "required": ["title"], "properties": {"title": _TEXT}},
}

_ON_EXHAUSTED = {
    "enum": [*ON_EXHAUSTED, None],
    "description": "What follows the last attempt: `pause` pauses the run until it is resumed.",
}
_SANDBOX: dict[str, Any] = {
    "type": ["object", "null"],
    "additionalProperties": False,
    "properties": {
        "memory": {"type": ["string", "integer"], "description": "Such as `256M`; 512M by default."},
        "cpu": {**_DURATION, "type": ["string", "number"], "description": "Such as `10s`; 60s by default."},
        "files": {"type": "array", "items": {"enum": [TMP]}},
        "network": {
            "anyOf": [
                {"const": False},
                {"type": "array", "maxItems": MAX_HOSTS, "items": {"type": "string"}},
            ],
            "description": "The only addresses that it may connect to, `host:port`.",
        },
    },
    "description": "What the call of its task may use, in a process of its own.",
}
_QUEUE = {
    "type": ["string", "null"],
    "pattern": QUEUE_PATTERN,
    "description": "The queue of its task runs. Absent: that of the run's trigger, else of the task.",
}
_REQUIRES = {
    "type": ["object", "null"],
    "minProperties": 1,
    "maxProperties": MAX_LABELS,
    "propertyNames": {"pattern": LABEL_NAME_PATTERN},
    "additionalProperties": {
        "anyOf": [{"type": "string", "pattern": LABEL_PATTERN}, {"type": "string", "pattern": r"\$\{"}]
    },
    "description": "Labels of the workers that may call it, beside those of the run and of its task. Values "
    "may hold `${…}`.",
}
_STEP: dict[str, Any] = {
    "type": "object",
    "description": "Does exactly one of `task`, `adapter`, and what the engine decides itself.",
    "additionalProperties": False,
    "properties": {
        "id": {**_NAME, "type": ["string", "null"], "description": "Absent: the task's id."},
        "task": _NAME,
        **_DEEDS,
        "condition": {**_CONDITION_OR_NONE, "description": "False or null: the step is passed over."},
        "join": _JOIN,
        "retry": _RETRY,
        "timeout": {**_DURATION, "description": "The time limit of one attempt."},
        "timeoutMs": {**_DURATION_MS, "description": "`timeout` in a normalised document."},
        "continueOnError": {"type": ["boolean", "null"], "description": "Its failure is passed over."},
        "onError": _call("Runs when its last attempt has failed.", handled=_HANDLED),
        "compensate": _call("Runs if the step had completed, and its run ends badly."),
        "onExhausted": _ON_EXHAUSTED,
        "sandbox": _SANDBOX,
        "queue": _QUEUE,
        "requires": _REQUIRES,
        "needs": {
            "type": ["array", "null"],
            "items": _NAME,
            "description": "Predecessors. Absent: the previous step; []: none, it starts at once.",
        },
        "params": {
            "type": ["object", "null"],
            "description": "The task's parameters; may hold references. Absent: filled from the run's input.",
        },
        "map": {
            "description": "Runs the step once for each item of a list.",
            "anyOf": [
                {"type": "null"},
                *_OVER["anyOf"],
                {
                    "type": "object",
                    "required": ["over"],
                    "additionalProperties": False,
                    "properties": {"over": _OVER, "as": {"type": ["string", "null"]}},
                },
            ],
        },
    },
}
_PARALLEL = {
    "type": "object",
    "required": ["parallel"],
    "additionalProperties": False,
    "properties": {
        "parallel": {
            "anyOf": [
                {"type": "array", "minItems": 1, "items": _STEP},
                {
                    "type": "object",
                    "required": ["steps"],
                    "additionalProperties": False,
                    "properties": {
                        "steps": {"type": "array", "minItems": 1},
                        "failure": {"enum": ["run", "settle"]},
                    },
                },
            ]
        },
        "id": {**_NAME, "description": "Of the gather, with `failure: settle`."},
    },
}

_TIME = {"type": ["string", "null"], "format": "date-time"}
_HOOK: dict[str, Any] = {
    "anyOf": [
        _NAME,
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {"pipeline": _NAME},
            "required": ["pipeline"],
        },
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {"url": {"type": "string", "pattern": URL_PATTERN}, "secret": _NAME},
            "required": ["url"],
        },
    ]
}
_HOOKS: dict[str, Any] = {
    "anyOf": [{"type": "null"}, _HOOK, {"type": "array", "maxItems": MAX_HOOKS, "items": _HOOK}],
    "description": "What follows a run that ends like this: pipelines, and URLs that are called.",
}
_SCHEDULE: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "cron": {"type": ["string", "null"], "maxLength": MAX_CRON_CHARS},
        "everyMs": {"type": ["integer", "null"], "minimum": MIN_EVERY_MS, "maximum": MAX_EVERY_MS},
        "at": _TIME,
        "timeZone": {"type": ["string", "null"], "maxLength": MAX_ZONE_CHARS},
        "input": {},
        "missedPolicy": {"enum": [*MISSED_POLICIES, None]},
        "overlapPolicy": {"enum": [*OVERLAP_POLICIES, None]},
        "jitterMs": {"type": ["integer", "null"], "minimum": 0, "maximum": MAX_JITTER_MS},
        "startAt": _TIME,
        "endAt": _TIME,
        "paused": {"type": ["boolean", "null"], "description": "When it is stored for the first time."},
    },
}

INPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "The fields of an input; also used to draw forms.",
    "required": ["fields"],
    "additionalProperties": False,
    "properties": {
        "fields": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "type", "label"],
                "properties": {"name": _TEXT, "type": {"enum": list(TYPES)}, "label": _TEXT},
            },
        },
        "strict": {"type": "boolean", "description": "Refuse input members that are not in `fields`."},
    },
}

_LIMIT: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT}
_CONCURRENCY: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "key": {
            **_TEXT,
            "description": "Over the input: runs with the same text share the limit. Absent: all runs do.",
        },
        "limit": {**_LIMIT, "default": 1},
        "onLimit": {
            "enum": list(ON_LIMIT),
            "default": ON_LIMIT[0],
            "description": "What becomes of a run without room: it waits, it does not start and the answer "
            "is the run that is open, or the oldest runs of its key are cancelled.",
        },
        "on_limit": {"enum": list(ON_LIMIT), "description": "The same as `onLimit`."},
    },
}

_RATE: dict[str, Any] = {"type": "string", "pattern": RATE_PATTERN}
_RATE_LIMIT: dict[str, Any] = {
    "type": "object",
    "required": ["rate"],
    "additionalProperties": False,
    "properties": {
        "key": {**_TEXT, "description": "As that of `concurrency`; with both, the same."},
        "rate": _RATE,
    },
}

PIPELINE: dict[str, Any] = {
    "required": ["steps"],
    "additionalProperties": False,
    "properties": {
        "id": {**_NAME, "description": "Absent: the id in the path. Both must agree."},
        "description": {"type": ["string", "null"], "maxLength": MAX_DESCRIPTION},
        "failureMode": {"enum": list(FAILURE_MODES), "default": FAILURE_MODES[0]},
        "priority": {"type": ["integer", "null"], "minimum": -(2**31), "maximum": 2**31 - 1},
        "timeout": {
            **_DURATION,
            "description": "A run's time limit: seconds, or a text such as 30s, 5m, 2h.",
        },
        "idleTimeout": {**_DURATION, "description": "The longest time in which nothing happens in a run."},
        "timeoutMs": {**_DURATION_MS, "description": "`timeout` in a normalised document."},
        "idleTimeoutMs": {**_DURATION_MS, "description": "`idleTimeout` in a normalised document."},
        "code": {
            "enum": [*CODES, None],
            "default": CODES[0],
            "description": "`pinned`: steps call only the code that their tasks had when the run began.",
        },
        "inputSchema": {
            "anyOf": [{"type": "null"}, INPUT_SCHEMA],
            "description": "The fields of the run's input. Absent: it is not checked.",
        },
        "output": {
            "description": "The output of a run, with references to steps. Absent: that of the end step.",
        },
        "variables": {
            "type": ["object", "null"],
            "description": "Values by name for expressions; may hold expressions over the input.",
        },
        "errorHandlers": _ERROR_RULES,
        "finally": _call("Runs when all steps have ended, however the run ends."),
        "finallyTimeout": {**_DURATION, "description": "The time limit of all that follows the last step."},
        "finallyTimeoutMs": {**_DURATION_MS, "description": "`finallyTimeout` in a normalised document."},
        "schedule": {
            "anyOf": [{"type": "null"}, {"type": "string", "maxLength": MAX_CRON_CHARS}, _SCHEDULE],
            "description": "When its runs begin by themselves: a cron line, or the members of a schedule.",
        },
        "onExhausted": {**_ON_EXHAUSTED, "description": "For steps that say nothing themselves."},
        "concurrency": {
            "anyOf": [{"type": "null"}, _LIMIT, _CONCURRENCY],
            "description": "How many of its runs are under way at once: a number, or for each key.",
        },
        "rateLimit": {
            "anyOf": [{"type": "null"}, _RATE, _RATE_LIMIT],
            "description": "How often its runs start, as 100/m, in all or for each key.",
        },
        "rate_limit": {"description": "The same as `rateLimit`."},
        **{name: _HOOKS for name in HOOK_NAMES},
        "defaults": {"type": "object", "description": "Default values of fields of the run's input."},
        "steps": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_STEPS,
            "items": {"anyOf": [_STEP, _PARALLEL]},
        },
    },
}
