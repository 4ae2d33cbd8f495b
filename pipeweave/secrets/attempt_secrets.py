"""Resolves the names of secrets for one attempt, and remembers their values to hide them in what it shows."""

from __future__ import annotations

from collections.abc import Callable, Collection

from pipeweave import masking
from pipeweave.masking import Masks


class AttemptSecrets:
    """The secrets of one attempt.

    Args:
        resolve: gives the value of a name; it may raise SecretNotFound, SecretDenied and Unavailable.

    Attributes:
        masks: hide the values that were resolved.
    """

    __slots__ = ("_resolve", "masks")

    def __init__(self, resolve: Callable[[str], str]) -> None:
        self._resolve = resolve
        self.masks = Masks()

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
