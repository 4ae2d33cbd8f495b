"""Idempotency keys as values: what a task's own function makes of a call, and what may be a key."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from pipeweave.authoring.calling import keyed_input
from pipeweave.authoring.context import Context
from pipeweave.errors import AttemptFenced, AttemptTimedOut, FieldError, InvalidIdempotencyKey
from pipeweave.size_limits import MAX_KEY_CHARS

KEY_EXPECTED = f"a text of 1 to {MAX_KEY_CHARS} characters, none of them a control character or a line break"

# Line breaks of Unicode are control characters, too, but for these two; half a surrogate pair is no text.
KEY_CHARACTERS = r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]"
_KEY = re.compile(rf"(?:(?![\ud800-\udfff]){KEY_CHARACTERS}){{1,{MAX_KEY_CHARS}}}\Z")

KeyFunction = Callable[..., Any]

# Names of a second parameter that has a default and still is the code version.
_VERSION = ("code_version", "version")


def is_key(value: Any) -> bool:
    """Whether a value is KEY_EXPECTED."""
    return isinstance(value, str) and _KEY.match(value) is not None


def key_of(make: KeyFunction, fn: Callable[..., Any], ctx: Context) -> str:
    """The key of a call.

    Args:
        make: the task's key function; it is given the call's input (`keyed_input`) and, where it takes two
            arguments, the code version.
        fn: the task's function.

    Raises:
        InvalidIdempotencyKey: it raised, or what it gave is no key.
    """
    arguments = (keyed_input(fn, ctx), ctx.code_version)
    try:
        key = make(*arguments) if takes_version(make) else make(arguments[0])
    except (AttemptTimedOut, AttemptFenced):
        raise
    except Exception as error:
        raise InvalidIdempotencyKey(
            f"task {ctx.task_id!r}: idempotency_key raised {type(error).__name__}: {error}"[:1000],
            hint="it is called with the call's input, and the code version if it takes two arguments",
        ) from error
    if not isinstance(key, str) or not is_key(key):
        what = f"{len(key):,} characters" if isinstance(key, str) and len(key) > MAX_KEY_CHARS else repr(key)
        raise InvalidIdempotencyKey(
            f"task {ctx.task_id!r}: idempotency_key gave {what}, not {KEY_EXPECTED}"[:1000],
            hint="hash what is long: hashlib.sha256(…).hexdigest()",
        )
    return key


def key_mistakes(make: Any) -> Iterator[FieldError]:
    """What keeps a value from being a task's key function."""
    if make is None:
        return
    if not callable(make):
        yield FieldError("idempotency_key", "must be a function of the input and the code version")
        return
    signature = _signature(make)
    if signature is not None and not (_can_take(signature, 1) or _can_take(signature, 2)):
        wrong = "must be callable with the input, or with the input and the code version"
        yield FieldError("idempotency_key", wrong, "invalid_signature")


@lru_cache(maxsize=8192)
def takes_version(make: KeyFunction) -> bool:
    """Whether a key function is given the code version, too: it has a second parameter that needs it, or is
    named for it.
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
        return None  # a builtin that does not say


def _can_take(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True
