"""Says which code a box loads, and what it may use."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeweave.authoring import Task
from pipeweave.bundles.bundled_task import BundledTask
from pipeweave.errors import SandboxUnavailable
from pipeweave.sandbox import Sandbox


@dataclass(frozen=True, slots=True)
class BoxSpec:
    """A box serves the calls of one of these, and of no other.

    Args:
        tenant: whose calls it serves.
        source: where the code comes from: the code hash of a task, the digest of a bundle.
        task_id: the task.
        module: the module that holds its function, as it is imported below one of the code roots.
        function: its name in the module, with dots.
        code_roots: folders whose modules it may import; they come first in `sys.path`.
        readable: folders that it may read as a whole, such as that of a bundle.
        file: the file of the module, where it cannot be imported by its name.
        sandbox: what it may use.
    """

    tenant: str
    source: str
    task_id: str
    module: str
    function: str
    code_roots: tuple[Path, ...]
    sandbox: Sandbox
    readable: tuple[Path, ...] = ()
    file: Path | None = None

    @classmethod
    def of_task(cls, tenant: str, task: Task[..., Any], sandbox: Sandbox) -> BoxSpec:
        """The spec of a task that this process has loaded.

        Raises:
            SandboxUnavailable: the function has no file that another process could load.
        """
        if isinstance(task, BundledTask):
            return cls._of_bundle(tenant, task, sandbox)
        name = task.fn.__module__
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if file is None or "<locals>" in task.fn.__qualname__:
            raise SandboxUnavailable(
                f"the function of task {task.id!r} cannot be loaded by another process",
                hint="write it at the top of a module",
            )
        roots, own = _place_of(name, Path(file).resolve())
        return cls(tenant, task.spec.code_hash, task.id, name, task.fn.__qualname__, roots, sandbox, file=own)

    @classmethod
    def _of_bundle(cls, tenant: str, task: BundledTask, sandbox: Sandbox) -> BoxSpec:
        return cls(
            tenant,
            task.source,
            task.id,
            task.module,
            task.function,
            task.code_roots,
            sandbox,
            readable=(task.folder,),
        )


def _place_of(name: str, file: Path) -> tuple[tuple[Path, ...], Path | None]:
    """The folder below which a module is imported, and its file if that is not how its name says."""
    parts = name.split(".")
    is_package = file.stem == "__init__"
    path = file.parent if is_package else file.with_suffix("")
    if tuple(path.parts[-len(parts) :]) == tuple(parts):
        return (path.parents[len(parts) - 1],), None
    # `--app tasks.py` gave it a free name, and beside it lie the modules that it imports.
    return (Path(os.path.dirname(file)),), file
