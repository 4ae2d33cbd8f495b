"""Say what the name of a secret may be."""

from __future__ import annotations

import re

from pipeweave.errors import SecretDenied

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}\Z")
_EXPECTED = "1 to 200 letters, digits and _ . -, beginning with a letter, a digit or _"


def problem_of(name: object) -> str | None:
    """What is wrong with the name of a secret; None if it can be one."""
    is_one = isinstance(name, str) and _NAME.match(name)
    return None if is_one else f"is not the name of a secret: use {_EXPECTED}"


def check_secret_name(name: object) -> None:
    """Refuse what can be the name of no secret.

    Raises:
        SecretDenied: it is none.
    """
    if problem_of(name) is not None:
        raise SecretDenied(f"{str(name)[:80]!r} is not the name of a secret", hint=f"use {_EXPECTED}")
