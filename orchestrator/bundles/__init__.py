"""Bundles of tenants: the keys that they trust, what is installed, and what was revoked.

Called by `api`, `workers` and `diagnosis`. Each verb compares a bundle with the keys as they are at that
moment; this room must never run what a bundle holds."""

from pipeweave.orchestrator.bundles.installed import InstalledBundle
from pipeweave.orchestrator.bundles.parking import SERVICE

__all__ = ["SERVICE", "InstalledBundle"]
