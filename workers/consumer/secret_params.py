"""Gives the params of a call the values of the secrets that they name, also of those for some hosts alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from pipeweave.authoring.secret_means import SecretMeans, TargetedSecrets
from pipeweave.authoring.task import Task
from pipeweave.spec import references

# Where the actions are that send their params to the host of their param `url`, and nowhere else. A task with
# the same id that takes their place lies elsewhere.
SENDERS = ("pipeweave.adapters.http", "pipeweave.adapters.webhook")

# Resolves a part of the params with a scope that has the secrets by name.
Resolve = Callable[[Any, Mapping[str, Any]], Any]


def resolved(
    task: Task[..., Any] | None, params: Mapping[str, Any], secrets: TargetedSecrets, resolve: Resolve
) -> Any:
    """The params with their secrets.

    Args:
        task: None where it is not loaded.

    Raises:
        SecretNotFound, SecretDenied, Unavailable: as of `SecretMeans.get`.
    """
    means: SecretMeans = secrets
    if task is not None and task.fn.__module__ in SENDERS and "url" in params:
        url = params["url"]
        host = _host(resolve(url, _named(url, secrets)))
        means = secrets if host is None else secrets.for_host(host)
    return resolve(params, _named(params, means))


def _named(part: Any, secrets: SecretMeans) -> Mapping[str, Any]:
    """The root `secret` of a part of the params."""
    paths = (each.path for each in references.compile_value(part).references if each.root == "secret")
    return {name: secrets.get(name) for name in sorted({str(path[0]) for path in paths})}


def _host(url: Any) -> str | None:
    try:
        return urlsplit(url).hostname if isinstance(url, str) else None
    except ValueError:
        return None
