"""The host of bundles: verifies what is installed for a tenant, unpacks it, and notices when that changes.

Called by `process`, for `pipeweave worker --bundles`. It must never import what a bundle holds: the tasks of
bundles run in boxes, and only there."""

from pipeweave.workers.bundles.loading import HostedBundles
from pipeweave.workers.bundles.watching import BundleWatch

__all__ = ["BundleWatch", "HostedBundles"]
