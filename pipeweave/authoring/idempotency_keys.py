"""Compute idempotency keys with a task's own function, and check keys and such functions."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, Literal

import orjson

from pipeweave.authoring.calling import idempotency_input, inputs_read
from pipeweave.authoring.context import Context
from pipeweave.errors import AttemptFenced, AttemptTimedOut, FieldError, InvalidIdempotencyKey
from pipeweave.json_values import write_json
from pipeweave.size_limits import MAX_KEY_CHARS

KEY_EXPECTED = f"a text of 1 to {MAX_KEY_CHARS} characters, none of them a control character or a line break"

# U+2028 and U+2029 are the only Unicode line breaks that are not control characters. Half a surrogate pair
# is not text.
KEY_CHARACTERS = r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]"
_KEY = re.compile(rf"(?:(?![\ud800-\udfff]){KEY_CHARACTERS}){{1,{MAX_KEY_CHARS}}}\Z")

KeyFunction = Callable[..., Any]

INPUTS: Final = "inputs"
"""The option `idempotency_key` of a task whose code and inputs are the key."""

KeyOption = KeyFunction | Literal["inputs"]

# A second parameter of this name gets the code version even if it has a default.
_VERSION = ("code_version", "version")


def is_key(value: Any) -> bool:
    """True if a value is a valid idempotency key (KEY_EXPECTED)."""
    return isinstance(value, str) and _KEY.match(value) is not None


def key_of(make: KeyOption, fn: Callable[..., Any], ctx: Context) -> str:
    """Compute the idempotency key of a call.

    Args:
        make: the task's option. A function gets the call's input (see `idempotency_input`) and, if it takes
            two arguments, the code version.
        fn: the task's function.
        ctx: the attempt's context.

    Raises:
        InvalidIdempotencyKey: `make` raised an error or returned an invalid key.
    """
    if isinstance(make, str):
        return _of_inputs(fn, ctx)
    arguments = (idempotency_input(fn, ctx), ctx.code_version)
    try:
        key = make(*arguments) if takes_version(make) else make(arguments[0])
    except (AttemptTimedOut, AttemptFenced):
        raise
    except Exception as error:
        raise InvalidIdempotencyKey(
            f"task {ctx.task_id!r}: idempotency_key raised {type(error).__name__}: {error}"[:1000],
            hint="it gets the call's input, and the code version if it takes two arguments",
        ) from error
    if not isinstance(key, str) or not is_key(key):
        what = f"{len(key):,} characters" if isinstance(key, str) and len(key) > MAX_KEY_CHARS else repr(key)
        raise InvalidIdempotencyKey(
            f"task {ctx.task_id!r}: idempotency_key returned {what}, not {KEY_EXPECTED}"[:1000],
            hint="hash long values: hashlib.sha256(…).hexdigest()",
        )
    return key


def _of_inputs(fn: Callable[..., Any], ctx: Context) -> str:
    inputs = write_json([ctx.code_hash, inputs_read(fn, ctx)], orjson.OPT_SORT_KEYS)
    return f"{INPUTS}:{hashlib.sha256(inputs).hexdigest()}"


def key_mistakes(make: Any) -> Iterator[FieldError]:
    """Yield the mistakes of the option `idempotency_key`; None is valid."""
    if make is None or make == INPUTS:
        return
    if not callable(make):
        wrong = f'must be a function of the input and the code version, or "{INPUTS}"'
        yield FieldError("idempotency_key", wrong)
        return
    signature = _signature(make)
    if signature is not None and not (_can_take(signature, 1) or _can_take(signature, 2)):
        wrong = "must be callable with the input, or with the input and the code version"
        yield FieldError("idempotency_key", wrong, "invalid_signature")


@lru_cache(maxsize=8192)
def takes_version(make: KeyFunction) -> bool:
    """True if a key function gets the code version, too.

    It does if it needs a second argument, or if its second parameter is named `code_version` or `version`.
    """
    signature = _signature(make)
    if signature is None or not _can_take(signature, 2):
        return False
    second = [each for each in signature.parameters.values() if each.kind in _BY_POSITION][1:2]
    return not _can_take(signature, 1) or any(each.name in _VERSION for each in second)


_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _signature(make: KeyFunction) -> inspect.Signature | None:
    try:
        return inspect.signature(make)
    except (TypeError, ValueError):
        return None  # a builtin without a readable signature


def _can_take(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True
