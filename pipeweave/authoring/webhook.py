"""Define `Webhook`: a URL that is called when a run of a pipeline ends, or an approval begins to wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pipeweave.spec.hooks import DEFAULT_SECRET


@dataclass(frozen=True, slots=True)
class Webhook:
    """A URL that is called when a run ends, or an approval begins to wait:
    `@pipeline(on_failure=Webhook("https://alerts.example/runs"))`.

    Args:
        url: called by POST, with a signature.
        secret: the name of the secret that signs; `pipeweave triggers hook-secret NAME` prints the secret.
    """

    url: str
    secret: str = DEFAULT_SECRET

    def to_json(self) -> dict[str, Any]:
        """The member of a pipeline document."""
        return {"url": self.url, "secret": self.secret}


class HasId(Protocol):
    """A pipeline."""

    @property
    def id(self) -> str:
        """Its id."""
        ...


Hook = str | HasId | Webhook


def written(hooks: Hook | Sequence[Hook] | None) -> Any:
    """The member of a pipeline document for a hook or several: what is neither is left for the reading."""
    if isinstance(hooks, list | tuple):
        return [written(each) for each in hooks]
    if isinstance(hooks, Webhook):
        return hooks.to_json()
    return getattr(hooks, "id", hooks)
