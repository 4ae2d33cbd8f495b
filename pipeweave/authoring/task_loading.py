"""Loads users' tasks and pipelines from modules, files and folders."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import logging
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pipeweave.authoring import (
    SUFFIXES,
    Task,
    check_hints,
    duplicate_tasks,
    load_documents,
    registered_pipelines,
    registered_tasks,
)
from pipeweave.authoring.import_errors import described, place
from pipeweave.errors import InvalidInput, InvalidTask, PipeWeaveError
from pipeweave.spec import PipelineSpec, derive

log = logging.getLogger(__name__)

# The module of the adapters that PipeWeave brings.
BUILT_IN_APP = "pipeweave.adapters"


@dataclass(frozen=True, slots=True)
class Loaded:
    """The definitions of all apps: tasks by id, and pipelines with the way in which each was defined."""

    tasks: dict[str, Task[..., Any]]
    pipelines: list[tuple[PipelineSpec, str]]

    @property
    def version(self) -> str:
        """The service's version: it changes exactly when the set of tasks or the code of one does."""
        code = sorted(f"{each.spec.id}={each.spec.code_hash}" for each in self.tasks.values())
        return hashlib.sha256("\n".join(code).encode()).hexdigest()[:12]


def load(
    apps: Collection[str],
    *,
    with_adapters: bool = False,
    may_lack_tasks: bool = False,
    requires_pipelines: bool = False,
) -> Loaded:
    """Import what `--app` names: a module (`shop.tasks`), a file (`tasks.py`, `nightly.yaml`) or a folder
    of those.

    Args:
        with_adapters: whether the adapters that PipeWeave brings are loaded beside them; an app may then hold
            pipelines alone.
        may_lack_tasks: whether pipelines alone are enough.
        requires_pipelines: whether tasks alone are too little, as REQUIRE_PIPELINES has it.

    Raises:
        InvalidInput: one cannot be imported, or there is no task in any of them, or no pipeline that must be.
        InvalidSpec, InvalidTask: a definition is wrong.
    """
    documents: list[PipelineSpec] = []
    for app in apps:
        documents += _load(app)
    declared = list(registered_pipelines().values())
    if not (registered_tasks() or ((with_adapters or may_lack_tasks) and (documents or declared))):
        raise InvalidInput(
            f"no tasks found in {', '.join(apps)}",
            hint="decorate a function with @task (from pipeweave import task)",
        )
    if with_adapters:
        importlib.import_module(BUILT_IN_APP)
    tasks = dict(registered_tasks())
    _refuse_doubles()
    check_hints({id_: each.fn for id_, each in tasks.items()})
    named = {each.id for each in [*declared, *documents]}
    derived = [each for each in derive(each.spec for each in tasks.values()) if each.id not in named]
    pipelines = [(each, "decorator") for each in declared]
    pipelines += [(each, "document") for each in documents]
    pipelines += [(each, "derived") for each in derived]
    if requires_pipelines and not pipelines:
        raise InvalidInput(
            f"no pipelines found in {', '.join(apps)}",
            hint="add one with @pipeline or as a document, or set REQUIRE_PIPELINES=false",
        )
    counts = {"tasks": len(tasks), "pipelines": len(pipelines)}
    log.info("definitions.loaded", extra={**counts, "apps": list(apps)})
    return Loaded(tasks, pipelines)


def _refuse_doubles() -> None:
    doubled = duplicate_tasks()
    if doubled:
        raise InvalidTask(
            "two functions have the same task id: "
            + "; ".join(
                f"{id_!r} in {first} and {second}" for id_, (first, second) in sorted(doubled.items())
            ),
            hint="give one of them another id: @task(id=…)",
        )


def _load(app: str) -> list[PipelineSpec]:
    path = Path(app)
    if path.is_dir():
        return _load_folder(path)
    if path.suffix in SUFFIXES:
        return load_documents(path)
    if path.suffix == ".py":
        _import_file(path)
    else:
        _import_module(app)
    return []


def _load_folder(folder: Path) -> list[PipelineSpec]:
    """Every `*.py` (not those starting with _ or test) and every pipeline document, in the order of
    their names.
    """
    documents: list[PipelineSpec] = []
    if str(folder.resolve()) not in sys.path:
        sys.path.insert(0, str(folder.resolve()))
    for path in sorted(folder.iterdir()):
        if path.suffix == ".py" and not path.name.startswith(("_", "test", "conftest")):
            _import_file(path)
        elif path.suffix in SUFFIXES:
            documents += load_documents(path)
    return documents


def _import_module(name: str) -> ModuleType:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except PipeWeaveError as error:
        _add_place(error)
        raise
    except Exception as error:
        raise _not_importable(name, error) from error


def _import_file(path: Path) -> ModuleType:
    resolved = path.resolve()
    if not resolved.is_file():
        raise InvalidInput(f"file {str(path)!r} not found", hint="--app takes a module, a file or a folder")
    for known in list(sys.modules.values()):
        if getattr(known, "__file__", None) == str(resolved):
            return known
    if str(resolved.parent) not in sys.path:
        sys.path.insert(0, str(resolved.parent))
    name = _free_name(resolved.stem)
    spec = importlib.util.spec_from_file_location(name, resolved)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except PipeWeaveError as error:
        _add_place(error)
        raise
    except Exception as error:
        del sys.modules[name]
        raise _not_importable(str(path), error) from error
    return module


def _free_name(stem: str) -> str:
    """A module name for a file that no module has: `email.py` must not replace the module `email`."""
    name = stem
    while name in sys.modules:
        name = f"app_{name}"
    return name


def _add_place(error: PipeWeaveError) -> None:
    """Let an error of a decorator say where it stands."""
    where = place(error)
    if where and where.rpartition(":")[0] not in error.detail:
        error.detail = f"{error.detail} ({where})"


def _not_importable(name: str, error: Exception) -> InvalidInput:
    what = described(error)
    is_name_wrong = isinstance(error, ModuleNotFoundError) and error.name == name.split(".")[0]
    hint = "--app takes a module, a file or a folder" if is_name_wrong else "correct the code and start again"
    return InvalidInput(f"{name} cannot be loaded: {what}", hint=hint)
