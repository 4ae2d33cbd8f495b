"""Hold what a run of this process and those inside of it share, and where one stands among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeweave.masking import Masks
from pipeweave.testing.local_attempts import Called
from pipeweave.testing.local_definitions import Definitions
from pipeweave.testing.local_waits import Outside


@dataclass(frozen=True, slots=True)
class LocalTree:
    """What all runs of a tree share.

    Args:
        definitions: the pipelines and tasks.
        tenant: of the runs.
        uploads: the files of uploads, by id.
        outside: the signals and decisions that come.
        secrets: of the tenant, by name.
        masks: hide the secrets in the errors that expressions see.
        outcomes: by task and idempotency key; a later call with the same key reuses the outcome.
    """

    definitions: Definitions
    tenant: str
    uploads: Mapping[str, Path] | None
    outside: Outside
    secrets: Mapping[str, str] | None = None
    masks: Masks = field(default_factory=Masks)
    outcomes: dict[tuple[str, str], Called] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LocalParent:
    """The run that a run belongs to.

    Args:
        run_id: of it, in the form that the API shows.
        depth: how many runs are above the run.
        path: the steps that lead to the run, each with a dot behind it.
        around: by root, what a body sees of the steps around it; nothing for a pipeline.
    """

    run_id: str
    depth: int
    path: str
    around: Mapping[str, Any] = field(default_factory=dict)
