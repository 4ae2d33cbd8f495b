"""See from a function's byte code whether it may read the run's input through its Context."""

from __future__ import annotations

import dis
from collections.abc import Callable
from itertools import pairwise
from typing import Any

_INPUTS = frozenset({"input", "params"})


def may_read_input(fn: Callable[..., Any], context: str) -> bool:
    """Whether a function may read the input of its Context; False only if that is certain.

    It is certain if each use of the parameter names an attribute at once, such as `ctx.log`, and none of them
    is `input` or `params`: the context is then neither handed on nor kept.

    Args:
        fn: the function.
        context: the name of its parameter for the Context.
    """
    code = getattr(fn, "__code__", None)
    if code is None or hasattr(fn, "__wrapped__") or context in code.co_cellvars:
        return True
    for use, following in pairwise(dis.get_instructions(code)):
        names = use.argval if isinstance(use.argval, tuple) else (use.argval,)
        if use.opname.startswith(("LOAD_FAST", "LOAD_DEREF", "STORE_FAST")) and context in names:
            is_attribute = following.opname in ("LOAD_ATTR", "LOAD_METHOD") and names[-1] == context
            if not is_attribute or following.argval in _INPUTS:
                return True
    return False
