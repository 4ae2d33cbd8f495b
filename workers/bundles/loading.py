"""Loads what is installed for a tenant: each file is verified and unpacked, and nothing of it is imported.

A bundle that cannot be loaded does not keep the others from it: its tasks are not loaded, and a line in the
log says why.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pipeweave.attempt.temp_folders import TempFolder
from pipeweave.authoring.task_loading import Loaded
from pipeweave.authoring.task_spec import TaskSpec
from pipeweave.bundles import bundle as bundle_files
from pipeweave.bundles import python_ranges
from pipeweave.bundles.archive import MAX_BUNDLE_BYTES
from pipeweave.bundles.bundle import Bundle, TrustedKey, verified_by
from pipeweave.bundles.bundled_task import BundledTask
from pipeweave.bundles.manifest import SOURCES, BundleTask
from pipeweave.errors import InvalidBundle, PipeWeaveError, Unavailable
from pipeweave.orchestrator.bundles import InstalledBundle, bundle_keys, installed, installing
from pipeweave.orchestrator.registry import TaskRegistration
from pipeweave.orchestrator.store import Database, Values
from pipeweave.sandbox import Sandbox

log = logging.getLogger(__name__)

_OF_SPEC = frozenset(each.name for each in fields(TaskSpec))


@dataclass(frozen=True, slots=True)
class InForce:
    """What counts for a tenant at one moment."""

    bundles: tuple[InstalledBundle, ...]
    keys: Mapping[str, TrustedKey]


def in_force(database: Database, tenant: str) -> InForce:
    """The bundles that workers of a tenant have to load now, and the keys of the tenant."""
    with database.transaction() as tx:
        return InForce(installed.installed(tx, tenant), bundle_keys.keys_of(tx, tenant))


class HostedBundles:
    """The bundles of one worker process, unpacked in a folder of its own.

    Attributes:
        seen: what counted when they were loaded.
        loaded: their tasks.
        may_come: whether a bundle is missing that storage may give later.
    """

    def __init__(self, database: Database, values: Values, tenant: str) -> None:
        # What a killed process leaves is removed by the next worker.
        self._temp = TempFolder()
        self.folder = self._temp.path
        self.may_come = False
        self._values = values
        self.seen = in_force(database, tenant)
        tasks: dict[str, BundledTask] = {}
        for each in self.seen.bundles:
            tasks |= self._load_if_possible(each)
        self.loaded = Loaded(dict(tasks), [])

    def close(self) -> None:
        """Delete the folder."""
        self._temp.remove()

    def _load_if_possible(self, row: InstalledBundle) -> dict[str, BundledTask]:
        names = {"bundle": row.id, "version": row.version}
        try:
            tasks = self._load(row)
        except PipeWeaveError as error:
            self.may_come |= isinstance(error, Unavailable)
            log.error("bundle.refused", extra={**names, "code": error.code, "reason": error.detail})
            return {}
        log.info("bundle.loaded", extra={**names, "tasks": len(tasks)})
        return tasks

    def _load(self, row: InstalledBundle) -> dict[str, BundledTask]:
        storage, path = self._values.backends.locate(row.storage_path)
        bundle = bundle_files.read(storage.get(path, limit=MAX_BUNDLE_BYTES))
        verified_by(bundle, self.seen.keys)
        _require_same(bundle, row)
        if not python_ranges.contains(bundle.manifest.python, sys.version_info[:3]):
            running = ".".join(map(str, sys.version_info[:3]))
            raise InvalidBundle(f"it is for Python {bundle.manifest.python}; this is {running}")
        folder = self.folder / bundle.content_hash
        bundle.unpack_into(folder)
        registered = installing.registration_of(bundle.manifest).tasks
        return {
            each.id: _task(each, registration, bundle, folder)
            for each, registration in zip(bundle.manifest.tasks, registered, strict=True)
        }


def _require_same(bundle: Bundle, row: InstalledBundle) -> None:
    """An older file, rightly signed, must not take the place of the one that was installed."""
    if bundle.content_hash != row.content_hash or bundle.manifest.id != row.id:
        raise InvalidBundle("the stored file is not that of the installed version")


def _task(entry: BundleTask, registration: TaskRegistration, bundle: Bundle, folder: Path) -> BundledTask:
    options: dict[str, Any] = {
        each.name: getattr(registration, each.name)
        for each in fields(TaskRegistration)
        if each.name in _OF_SPEC
    }
    for name in ("allowed_next", "retry_on"):
        options[name] = None if options[name] is None else tuple(options[name])
    spec = TaskSpec(**options, sandbox=Sandbox(**(entry.sandbox or {})))
    wheels = tuple(folder / each for each in bundle.manifest.requires)
    return BundledTask(
        spec,
        entry.registration,
        entry.module,
        entry.function,
        bundle.content_hash,
        folder,
        (folder / SOURCES, *wheels),
    )
