"""Find the secret key of the deployment: that of the environment, or that of the stack of this folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipeweave.errors import FieldError, InvalidSetting
from pipeweave.settings import load, stack_file


@dataclass(frozen=True, slots=True)
class DeploymentSecret:
    """The secret key of a deployment.

    Args:
        tenant: the tenant that the environment or the stack names.
        is_shared_by_workers: whether it is also the worker secret of every service.
        source: the variable or the file that it comes from.
    """

    key: str
    tenant: str
    is_shared_by_workers: bool
    source: str


def deployment_secret(data_dir: Path | None) -> DeploymentSecret:
    """The secret key that the environment names, else that of the stack in this folder or above it.

    Args:
        data_dir: take that of the stack in this folder.

    Raises:
        InvalidSetting: there is none.
        Unavailable: no stack runs in `data_dir`.
    """
    from pipeweave.up.folder import DataFolder

    settings = load()
    is_shared = settings.worker_secrets == "shared"
    if settings.secret_key and data_dir is None:
        return DeploymentSecret(settings.secret_key, settings.tenant, is_shared, "PIPEWEAVE_SECRET_KEY")
    stack = stack_file.read(data_dir) if data_dir else stack_file.find(settings.data_dir)
    if stack is None:
        raise InvalidSetting(
            "no secret key is known here",
            errors=[FieldError("PIPEWEAVE_SECRET_KEY", "is not set, and no stack runs here", "required")],
            hint="set it to that of the deployment, or name a stack by --data-dir",
        )
    folder = DataFolder(stack.folder)
    is_shared = stack.settings.get("WORKER_SECRETS", "shared") == "shared"
    return DeploymentSecret(folder.secrets().secret_key, stack.tenant, is_shared, str(folder.secrets_file))
