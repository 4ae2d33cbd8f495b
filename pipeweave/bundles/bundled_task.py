"""Define BundledTask: a task whose code lies in an unpacked bundle, for boxes alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeweave.authoring import Task
from pipeweave.authoring.task_spec import TaskSpec
from pipeweave.errors import TaskNotLoaded


class BundledTask(Task[..., Any]):
    """A task of a bundle. This process has not imported its function, and never does.

    Args:
        registration: its options and parameters, as the manifest of the bundle has them.
        module, function: where its function is, below the code roots.
        source: the hash of the bundle's content.
        folder: the unpacked bundle.
        code_roots: where its imports begin.
    """

    def __init__(
        self,
        spec: TaskSpec,
        registration: Mapping[str, Any],
        module: str,
        function: str,
        source: str,
        folder: Path,
        code_roots: tuple[Path, ...],
    ) -> None:
        super().__init__(_not_here, spec)
        self.registration = registration
        self.module = module
        self.function = function
        self.source = source
        self.folder = folder
        self.code_roots = code_roots

    def to_registration(self) -> dict[str, Any]:
        return dict(self.registration)


def _not_here() -> None:
    raise TaskNotLoaded("the function of a bundle runs in a box only")
