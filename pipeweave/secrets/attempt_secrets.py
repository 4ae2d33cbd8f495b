"""Resolves the names of secrets for one attempt, and remembers their values to hide them in what it shows."""

from __future__ import annotations

from collections.abc import Callable, Collection

from pipeweave import masking
from pipeweave.masking import Masks


class AttemptSecrets:
    """The secrets of one attempt.

    Args:
        resolve: gives the value of a name; it may raise SecretNotFound, SecretDenied and Unavailable.
        resolve_for: the same for a call that sends it to a host alone; None: none is for a host alone.
        masks: of the attempt.

    Attributes:
        masks: hide the values that were resolved.
    """

    __slots__ = ("_resolve", "_resolve_for", "masks")

    def __init__(
        self,
        resolve: Callable[[str], str],
        resolve_for: Callable[[str, str], str] | None = None,
        masks: Masks | None = None,
    ) -> None:
        self._resolve = resolve
        self._resolve_for = resolve_for
        self.masks = Masks() if masks is None else masks

    def for_host(self, host: str) -> AttemptSecrets:
        """These secrets, and those that may be sent to this host alone; both are hidden by the same masks."""
        resolve_for = self._resolve_for
        if resolve_for is None:
            return self
        return AttemptSecrets(lambda name: resolve_for(name, host), masks=self.masks)

    def get(self, name: str) -> str:
        """The value of a secret: what `ctx.secret` gives.

        Raises:
            SecretNotFound, SecretDenied, Unavailable: as of `SecretFinder.find`.
        """
        value = self._resolve(name)
        self.masks.add(value)
        masking.remember(value)
        return value

    def all(self, names: Collection[str]) -> dict[str, str]:
        """The values of several, by name."""
        return {name: self.get(name) for name in sorted(names)}
