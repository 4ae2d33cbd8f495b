"""Gives an HTTP worker the secrets that the params of its step name, apart from its input: that is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeweave.errors import SecretDenied
from pipeweave.secrets import SecretFinder
from pipeweave.sending import Target
from pipeweave.spec import split_secrets


@dataclass(frozen=True, slots=True)
class DispatchSecrets:
    """The secrets of one dispatch.

    Args:
        values: by their names: the member `secrets` of the dispatch.
        params: parameter -> name of the secret that it takes: the member `secretParams`.
    """

    values: Mapping[str, str] = field(repr=False)
    params: Mapping[str, str]


def found_for(finder: SecretFinder, tenant: str, params: Mapping[str, Any]) -> DispatchSecrets | None:
    """The secrets that params name; None if they name none.

    Raises:
        SecretDenied, SecretNotFound, Unavailable: one cannot be given to an HTTP worker, or not be found.
    """
    split = split_secrets(params)
    if split.mixed:
        raise SecretDenied(
            f"the param {split.mixed[0]!r} is more than a secret",
            hint="a param of a task of an HTTP service is a whole secret: ${secret.NAME}, and nothing else",
        )
    if not split.whole:
        return None
    names = sorted(set(split.whole.values()))
    return DispatchSecrets({each: finder.find(tenant, each).value for each in names}, split.whole)


def require_private(target: Target) -> None:
    """Make sure that nobody on the way reads what is sent.

    Raises:
        SecretDenied: it would go over plain http to another machine.
    """
    if target.scheme != "https" and not target.is_loopback:
        raise SecretDenied(
            f"secrets go to HTTP workers over https or loopback alone, not to {target.host[:200]}",
            hint="let the service register an https URL",
        )
