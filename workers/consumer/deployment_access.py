"""What a worker lends of its deployment to tasks and built-in actions: networks, secrets, named values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from pipeweave.authoring.deployment_means import NamedValues
from pipeweave.secrets import AttemptSecrets, SecretFinder
from pipeweave.settings import Settings
from pipeweave.storage import Backends
from pipeweave.workers.consumer.stored_names import StoredNames


class DeploymentAccess:
    """The `DeploymentMeans` of one worker process."""

    def __init__(self, settings: Settings, backends: Backends) -> None:
        self._settings = settings
        self._backends = backends

    @property
    def networks(self) -> Sequence[str]:
        return self._settings.dispatch_networks

    def secrets_of(self, tenant: str) -> AttemptSecrets:
        """The secrets of one attempt of a tenant: `get` resolves a name, `masks` hides what it gave.

        Whoever calls a task for an attempt makes one, lends it to the Context, and masks by it all that the
        attempt shows.
        """
        return AttemptSecrets(
            lambda name: self._finder.find(tenant, name).value,
            lambda name, host: self._finder.find(tenant, name, host).value,
        )

    @cached_property
    def _finder(self) -> SecretFinder:
        return SecretFinder(self._settings.secrets)

    def named_values(self, tenant: str) -> NamedValues:
        # One place for all pipelines of the tenant: they read what others have stored.
        return StoredNames(self._backends.get(self._backends.choose(tenant, None)), tenant)
