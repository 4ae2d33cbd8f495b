"""Define SecretMeans: how a call gets the values of secrets, and what hides them afterwards."""

from __future__ import annotations

from typing import Protocol

from pipeweave.masking import Masks


class SecretMeans(Protocol):
    """The secrets of one attempt."""

    @property
    def masks(self) -> Masks:
        """Hide the values that were given."""

    def get(self, name: str) -> str:
        """The value of a secret.

        Raises:
            SecretNotFound, SecretDenied, Unavailable: as of `Context.secret`.
        """


class TargetedSecrets(SecretMeans, Protocol):
    """Secrets of which some may be for a host alone."""

    def for_host(self, host: str) -> SecretMeans:
        """These secrets, and those that may be sent to this host alone."""


class SecretReferences:
    """Gives the reference in place of each value: what keys and hashes are made of."""

    masks = Masks()

    def get(self, name: str) -> str:
        return f"${{secret.{name}}}"

    def for_host(self, host: str) -> SecretReferences:
        return self
