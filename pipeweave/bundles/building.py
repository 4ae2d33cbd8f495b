"""Builds a bundle from a folder of sources: it imports them, and writes down what they define."""

from __future__ import annotations

import hashlib
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeweave.authoring import Task
from pipeweave.authoring.task_loading import load
from pipeweave.bundles import manifest as manifests
from pipeweave.bundles.archive import MAX_BUNDLE_BYTES, MAX_FILES
from pipeweave.bundles.bundle import SUFFIX, Bundle
from pipeweave.bundles.envelope import canonical
from pipeweave.bundles.manifest import SOURCES, WHEELS, BundleFile, BundleTask, module_files
from pipeweave.errors import FieldError, InvalidBundle, InvalidInput
from pipeweave.sandbox import MEMBERS

# What a folder of sources may hold and no bundle needs.
_LEFT_OUT = frozenset({"__pycache__", "node_modules", "venv"})
_LEFT_OUT_SUFFIXES = (".pyc", ".pyo", SUFFIX)


def build(
    folder: Path,
    *,
    bundle_id: str | None = None,
    version: str | None = None,
    apps: Sequence[str] = (),
    wheels: Sequence[Path] = (),
    python: str | None = None,
) -> Bundle:
    """Build a bundle, not signed yet. The same sources give the same bytes.

    Its tasks are those whose functions lie in the folder; its pipelines are all that the sources define.

    Args:
        folder: the sources; it is where their imports begin.
        bundle_id, version, python: those of `pyproject.toml` in the folder by default.
        apps: modules to import; by default every `*.py` of the folder itself, and its pipeline documents.
        wheels: wheels of pure Python that the sources import.

    Raises:
        PipeWeaveError: the sources cannot be imported, or what they define does not go into a bundle.
    """
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is not a folder")
    project = _project(folder)
    names = {"id": bundle_id or project.get("name"), "version": version or project.get("version")}
    _require(names)
    sources = {f"{SOURCES}{name}": content for name, content in _sources(folder)}
    required = {f"{WHEELS}{each.name}": _read(each) for each in wheels}
    files = {**sources, **required}
    # The folder holds sources, before and after.
    sys.dont_write_bytecode = True
    # Modules are imported as a box will: the folder comes first.
    sys.path[:0] = [str(folder.resolve()), *(str(each.resolve()) for each in wheels)]
    loaded = load(apps or [str(folder)], with_adapters=False, may_lack_tasks=True)
    mine = [each for each in loaded.tasks.values() if _is_within(each, folder)]
    document = {
        "format": manifests.FORMAT,
        **names,
        "python": python or project.get("requires-python") or _this_python(),
        "tasks": [_task(each).model_dump() for each in sorted(mine, key=lambda each: each.id)],
        "pipelines": [spec.to_json() for spec, _ in sorted(loaded.pipelines, key=lambda each: each[0].id)],
        "requires": sorted(required),
        "files": [_listed(path, files[path]).model_dump() for path in sorted(files)],
    }
    parsed = manifests.parse(canonical(document))
    parsed.specs()
    built = Bundle(parsed, files)
    if len(built.to_bytes()) > MAX_BUNDLE_BYTES:
        raise InvalidBundle(f"the bundle would be larger than {MAX_BUNDLE_BYTES} bytes")
    return built


def _require(names: Mapping[str, object]) -> None:
    missing = [name for name, text in names.items() if text is None]
    if missing:
        raise InvalidInput(
            f"the bundle has no {' and no '.join(missing)}",
            errors=[FieldError(each, "is missing", "required") for each in missing],
            hint="give --id and --version, or [project] with name and version in the folder's pyproject.toml",
        )


def _project(folder: Path) -> dict[str, Any]:
    path = folder / "pyproject.toml"
    try:
        project = tomllib.loads(path.read_text(encoding="utf-8")).get("project", {}) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from None
    return project if isinstance(project, dict) else {}


def _this_python() -> str:
    """From the running version of Python on, to the next that may break it."""
    major, minor = sys.version_info[:2]
    return f">={major}.{minor},<{major + 1}"


def _sources(folder: Path) -> Iterator[tuple[str, bytes]]:
    number = 0
    for path in sorted(folder.rglob("*")):
        within = path.relative_to(folder)
        if any(each in _LEFT_OUT or each.startswith(".") for each in within.parts):
            continue
        if path.is_symlink():
            raise InvalidBundle(f"{path} is a link", hint="put the file itself into the folder")
        if path.is_file() and not path.name.endswith(_LEFT_OUT_SUFFIXES):
            number += 1
            if number > MAX_FILES:
                raise InvalidBundle(f"{folder} has more than {MAX_FILES} files")
            yield within.as_posix(), _read(path)


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_BUNDLE_BYTES:
            raise InvalidBundle(f"{path} is larger than {MAX_BUNDLE_BYTES} bytes")
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from None


def _listed(path: str, content: bytes) -> BundleFile:
    return BundleFile(path=path, sha256=hashlib.sha256(content).hexdigest(), size=len(content))


def _is_within(task: Task[..., Any], folder: Path) -> bool:
    module = sys.modules.get(task.fn.__module__)
    file = getattr(module, "__file__", None)
    return file is not None and folder.resolve() in Path(file).resolve().parents


def _task(task: Task[..., Any]) -> BundleTask:
    module, name = task.fn.__module__, task.fn.__qualname__
    if getattr(sys.modules.get(module), name, None) is not task:
        raise _not_bundled(task, f"is not the attribute {name!r} of module {module!r}")
    file = Path(str(sys.modules[module].__file__)).as_posix()
    if not any(file.endswith(f"/{each}") for each in module_files(module)):
        hint = "its file has the name of a module that Python has already: rename it"
        raise _not_bundled(task, f"was imported as module {module!r}", hint)
    if task.spec.idempotency_key is not None:
        raise _not_bundled(task, "has an idempotency key, which no box computes")
    return BundleTask(
        module=module, function=name, registration=task.to_registration(), sandbox=_sandbox(task)
    )


def _sandbox(task: Task[..., Any]) -> dict[str, Any] | None:
    """The limits of its box: those of its sandbox, else those of every box."""
    sandbox = task.spec.sandbox
    return None if sandbox is None else {each: _plain(getattr(sandbox, each)) for each in MEMBERS}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _not_bundled(task: Task[..., Any], problem: str, hint: str | None = None) -> InvalidBundle:
    return InvalidBundle(
        f"task {task.id!r} {problem}",
        errors=[FieldError(f"tasks.{task.id}", problem, "unsupported")],
        hint=hint or "a task of a bundle is a decorated function at the top of a module",
    )
