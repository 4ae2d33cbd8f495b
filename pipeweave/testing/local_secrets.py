"""Give a test's secrets to the calls of its tasks, as a worker gives those of the deployment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pipeweave.authoring import Context
from pipeweave.authoring.secret_means import SecretMeans, SecretReferences
from pipeweave.errors import SecretNotFound
from pipeweave.masking import Masks
from pipeweave.secret_names import check_secret_name
from pipeweave.secrets import AttemptSecrets
from pipeweave.spec.references import compile_value

FillParams = Callable[[SecretMeans], Any]
"""Resolves the params of a step with the values of these secrets."""


def attempt_secrets(values: Mapping[str, str] | None, of_run: Masks | None = None) -> AttemptSecrets:
    """The secrets of one attempt: those of the test, by name.

    Args:
        of_run: hides from now on what the attempt resolves.
    """

    def resolve(name: str) -> str:
        check_secret_name(name)
        if name not in (values or {}):
            hint = f"give it to the test: secrets={{{name!r}: …}}"
            raise SecretNotFound(f"there is no secret {name!r}", hint=hint)
        value = (values or {})[name]
        if of_run is not None:
            of_run.add(value)
        return value

    return AttemptSecrets(resolve)


def secret_scope(params: Any, means: SecretMeans) -> dict[str, Any]:
    """The root `secret` for the params of a step; nothing where they name no secret."""
    paths = (each.path for each in compile_value(params).references if each.root == "secret")
    names = sorted({str(path[0]) for path in paths})
    return {"secret": {name: means.get(name) for name in names}} if names else {}


def for_keys(ctx: Context, fill: FillParams) -> Context:
    """The context of which an idempotency key is made: references stand in place of secrets."""
    means = SecretReferences()
    params = fill(means)
    return replace(ctx, secrets=means, params=params, input=ctx.input if params is None else params)
