"""Says how two versions of a pipeline differ: steps added, removed and changed, and settings (pure)."""

from __future__ import annotations

from typing import Any

from pipeweave.orchestrator.documents.comparisons import Change, ChangedStep, VersionStep
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.spec import PipelineSpec, StepSpec

# Members of a step that may change, as its document names them.
STEP_MEMBERS = ("task", "needs", "params", "map")


def differences(before: PipelineSpec, after: PipelineSpec) -> dict[str, list[Document]]:
    """The lists of `VersionDifferences`: from one version to the other. A step is known by its id."""
    shared = [step for step in after.steps if step.id in before.by_id]
    changed = [(step.id, _changes(before.by_id[step.id], step)) for step in shared]
    return {
        "added": [_shown(step) for step in after.steps if step.id not in before.by_id],
        "removed": [_shown(step) for step in before.steps if step.id not in after.by_id],
        "changed": [ChangedStep.of(id=id, changes=changes) for id, changes in changed if changes],
        "settings": _compared(_settings(before), _settings(after)),
    }


def _shown(step: StepSpec) -> Document:
    return VersionStep.of(step, needs=list(step.needs))


def _changes(before: StepSpec, after: StepSpec) -> list[Document]:
    return _compared(before.to_json(), after.to_json())


def _settings(spec: PipelineSpec) -> dict[str, Any]:
    return {name: value for name, value in spec.version_json().items() if name not in ("id", "steps")}


def _compared(before: dict[str, Any], after: dict[str, Any]) -> list[Document]:
    """The members of two documents that are not equal, in the order of their names."""
    names = sorted(before.keys() | after.keys())
    return [
        Change.of(field=name, before=before.get(name), after=after.get(name))
        for name in names
        if before.get(name) != after.get(name)
    ]
