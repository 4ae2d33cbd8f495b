"""What a worker lends of its deployment to built-in actions: networks, secrets, named values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeweave.authoring.deployment_means import NamedValues
from pipeweave.settings import Settings
from pipeweave.settings.adapter_secrets import secret_for
from pipeweave.storage import Backends
from pipeweave.workers.consumer.stored_names import StoredNames


@dataclass(frozen=True, slots=True)
class DeploymentAccess:
    """The `DeploymentMeans` of one worker process."""

    settings: Settings = field(repr=False)
    backends: Backends = field(repr=False)

    @property
    def networks(self) -> Sequence[str]:
        return self.settings.dispatch_networks

    def secret(self, name: str, host: str) -> str:
        return secret_for(self.settings.adapter_secrets, name, host)

    def named_values(self, tenant: str) -> NamedValues:
        # One place for all pipelines of the tenant: they read what others have stored.
        return StoredNames(self.backends.get(self.backends.choose(tenant, None)), tenant)
