"""Read how many runs of a pipeline are under way at once and how often they start, and for which keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pipeweave.errors import FieldError
from pipeweave.field_errors import FieldErrors
from pipeweave.json_values import json_type
from pipeweave.option_checks import choice_mistakes, number_mistakes
from pipeweave.rates import parse_rate, rate_mistakes
from pipeweave.spec.document_expressions import ExpressionReader
from pipeweave.spec.document_rules import renamed
from pipeweave.spec.run_limits import MAX_LIMIT, ON_LIMIT, QUEUE, RunConcurrency, RunRate

# What is known before a run begins.
KEY_ROOTS: Final = frozenset({"input", "variables"})
_CONCURRENCY_KEYS = ("key", "limit", "onLimit")
_RATE_KEYS = ("key", "rate")
# The same keys as another notation writes them.
_NAMES = {"on_limit": "onLimit"}


def read_concurrency(
    mistakes: FieldErrors, expressions: ExpressionReader, written: Any
) -> RunConcurrency | None:
    """Read `concurrency` of a pipeline: a limit, or an object; None if there is none, or a wrong one."""
    if written is None:
        return None
    members: Any = {"limit": written} if isinstance(written, int) else written
    if not isinstance(members, Mapping):
        problem = f"must be a number of runs, or an object such as {{limit: 1}}, not {json_type(written)}"
        mistakes.wrong("concurrency", problem, "invalid_type", "object")
        return None
    members = renamed(mistakes, members, _NAMES, "concurrency")
    mistakes.unknown_keys(members, _CONCURRENCY_KEYS, "concurrency")
    members = {name: value for name, value in members.items() if value is not None}
    limit, on_limit = members.get("limit", 1), members.get("onLimit", QUEUE)
    wrong = [
        *number_mistakes(limit, "limit", int, 1, MAX_LIMIT),
        *choice_mistakes(on_limit, "onLimit", ON_LIMIT),
    ]
    for each in wrong:
        mistakes.wrong(f"concurrency.{each.field}", each.message, each.code, each.expected)
    key = read_key(mistakes, expressions, members.get("key"), "concurrency.key")
    return None if wrong else RunConcurrency(key, limit, on_limit)


def read_rate(
    mistakes: FieldErrors, expressions: ExpressionReader, written: Any, beside: RunConcurrency | None
) -> RunRate | None:
    """Read `rateLimit` of a pipeline: a rate, or an object; None if there is none, or a wrong one.

    Args:
        beside: the `concurrency` of the pipeline. A run stands in one line, so both have one key.
    """
    if written is None:
        return None
    members: Any = {"rate": written} if isinstance(written, str) else written
    if not isinstance(members, Mapping):
        problem = (
            f'must be a rate such as "100/m", or an object such as {{rate: 100/m}}, not {json_type(written)}'
        )
        mistakes.wrong("rateLimit", problem, "invalid_type", "object")
        return None
    mistakes.unknown_keys(members, _RATE_KEYS, "rateLimit")
    rate = members.get("rate")
    wrong = list(rate_mistakes("" if rate is None else rate, "rate"))
    if not wrong and parse_rate(str(rate)).limit > MAX_LIMIT:
        wrong = [FieldError("rate", f"is {rate}: at most {MAX_LIMIT:,} runs start in a time", "out_of_range")]
    for each in wrong:
        mistakes.wrong(f"rateLimit.{each.field}", each.message, each.code, each.expected)
    key = read_key(mistakes, expressions, members.get("key"), "rateLimit.key")
    if beside is not None and beside.key != key:
        problem = "must be that of `concurrency`: a run waits in one line"
        mistakes.wrong("rateLimit.key", problem, "conflict", beside.key)
    return None if wrong else RunRate(str(rate), key)


def read_key(mistakes: FieldErrors, expressions: ExpressionReader, written: Any, path: str) -> str | None:
    """Read a key; None if there is none, or a wrong one."""
    if written is None:
        return None
    if not isinstance(written, str) or not written.strip():
        problem = 'must be a text with an expression, such as "${input.customer}"'
        mistakes.wrong(path, problem, "invalid_type", "string")
        return None
    first = len(expressions.written)
    expressions.value(written, path)
    expressions.allow(first, KEY_ROOTS)
    return written
