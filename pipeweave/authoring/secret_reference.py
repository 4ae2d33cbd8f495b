"""Name a secret in a `@pipeline` function."""

from __future__ import annotations

from typing import Any

from pipeweave.authoring import formulas
from pipeweave.authoring.placeholder import Placeholder
from pipeweave.errors import InvalidSpec
from pipeweave.secret_names import problem_of


def secret(name: str) -> Any:
    """The value of a secret, as an argument of a task: `connect(password=secret("DB_PASSWORD"))`.

    The pipeline holds the reference `${secret.NAME}`; the process that calls the task finds the value.

    Args:
        name: 1 to 200 letters, digits and _ . -

    Raises:
        InvalidSpec: it cannot be the name of a secret.
    """
    if (problem := problem_of(name)) is not None:
        raise InvalidSpec(f"{name!r:.200} {problem}")
    return Placeholder(formulas.path("secret", (name,)))
