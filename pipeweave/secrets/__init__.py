"""Find the values of secrets where SECRETS says, when a task is called, and hide them in what it shows.

Workers and dispatches call it, and so does the command `pipeweave secrets`. It must never write a value
anywhere, keep one for longer than CACHED_S, or wait for a provider without a limit.
"""

from __future__ import annotations

from pipeweave.secrets.attempt_secrets import AttemptSecrets
from pipeweave.secrets.finding import CACHED_S, ResolvedSecret, SecretFinder

__all__ = ["CACHED_S", "AttemptSecrets", "ResolvedSecret", "SecretFinder"]
