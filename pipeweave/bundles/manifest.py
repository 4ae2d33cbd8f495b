"""Define the manifest of a bundle: what it holds, each file with its hash.

`pipeweave bundle build` writes it, the signature is over its bytes, and every load compares the files with
it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from pipeweave import ids
from pipeweave.bundles import python_ranges, versions
from pipeweave.bundles.archive import MAX_BUNDLE_BYTES, MAX_FILES
from pipeweave.bundles.envelope import canonical
from pipeweave.bundles.file_names import MAX_NAME_BYTES, clash, name_fault
from pipeweave.errors import FieldError, InvalidBundle, InvalidSpec, PipeWeaveError
from pipeweave.json_values import json_faults
from pipeweave.spec import PipelineSpec, parse_spec

FORMAT = 1
SOURCES, WHEELS = "src/", "wheels/"
"""The folders of a bundle: its sources, and wheels of pure Python that they import."""

MAX_TASKS = 500
MAX_PIPELINES = 200
MAX_MANIFEST_BYTES = 8 * 1024 * 1024
_MOST_ERRORS = 20

_DOTTED = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$"
Dotted = Annotated[str, StringConstraints(pattern=_DOTTED, max_length=500)]


def _name(text: Any) -> Any:
    if isinstance(text, str):
        try:
            return ids.check_name(text, "it")
        except PipeWeaveError as error:
            raise ValueError(error.hint) from None
    return text


def _version(text: Any) -> Any:
    if not versions.is_version(text):
        raise ValueError(f"must be {versions.VERSION_EXPECTED}")
    return text


def _range(text: Any) -> Any:
    if not python_ranges.is_range(text):
        raise ValueError(f"must be {python_ranges.RANGE_EXPECTED}")
    return text


class _ManifestPart(BaseModel):
    """A part of a manifest: exactly these members, of exactly these types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class BundleFile(_ManifestPart):
    """One file: its path in the bundle, its hash, and its size in bytes."""

    path: str = Field(max_length=MAX_NAME_BYTES)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0, le=MAX_BUNDLE_BYTES)


class BundleTask(_ManifestPart):
    """One task.

    Attributes:
        module, function: where its function is, below the bundle's sources.
        registration: its options and parameters, as a worker registers them.
        sandbox: the limits of its box, as a step of a document writes them; None: those of every box.
    """

    module: Dotted
    function: Dotted
    registration: dict[str, Any]
    sandbox: dict[str, Any] | None

    @property
    def id(self) -> str:
        return str(self.registration.get("id", ""))


class BundleManifest(_ManifestPart):
    """What a bundle holds.

    Attributes:
        format: of the manifest.
        id: of the bundle, unique in its tenant.
        version: one to four numbers with dots; a bundle's next version is greater.
        python: the versions of Python that it runs on.
        tasks: in the order of their ids.
        pipelines: documents, in the order of their ids.
        requires: the paths of the wheels that its sources import.
        files: all files but the manifest and the signature, in the order of their paths.
    """

    format: Literal[1]
    id: Annotated[str, BeforeValidator(_name)]
    version: Annotated[str, BeforeValidator(_version)]
    python: Annotated[str, BeforeValidator(_range)]
    tasks: list[BundleTask] = Field(max_length=MAX_TASKS)
    pipelines: list[dict[str, Any]] = Field(max_length=MAX_PIPELINES)
    requires: list[str] = Field(max_length=MAX_FILES)
    files: list[BundleFile] = Field(max_length=MAX_FILES)

    @property
    def order(self) -> tuple[int, int, int, int]:
        """What its version is compared by."""
        return versions.order_of(self.version)

    @property
    def task_ids(self) -> list[str]:
        return [each.id for each in self.tasks]

    def specs(self) -> list[PipelineSpec]:
        """Its pipelines.

        Raises:
            InvalidBundle: one of them is not valid; each FieldError names a place in the manifest.
        """
        return [self._spec(at) for at in range(len(self.pipelines))]

    def _spec(self, at: int) -> PipelineSpec:
        try:
            return parse_spec(self.pipelines[at])
        except InvalidSpec as error:
            faults = [
                FieldError(
                    f"pipelines[{at}].{each.field}".rstrip("."), each.message, each.code, each.expected
                )
                for each in error.errors
            ]
            raise InvalidBundle(f"pipelines[{at}]: {error.detail}", errors=faults) from None

    def to_bytes(self) -> bytes:
        return canonical(self.model_dump())


def parse(text: bytes) -> BundleManifest:
    """Read a manifest.

    Raises:
        InvalidBundle: it is not written as `BundleManifest.to_bytes` writes it, or a member is wrong.
    """
    if len(text) > MAX_MANIFEST_BYTES:
        raise refused([FieldError("", f"is larger than {MAX_MANIFEST_BYTES} bytes", "too_large")])
    try:
        document = orjson.loads(text)
        manifest = BundleManifest.model_validate(document)
    except ValidationError as error:
        raise refused([_fault(each) for each in error.errors()]) from None
    except ValueError:
        raise refused([FieldError("", "is not JSON", "malformed")]) from None
    if faults := list(_faults(manifest, document)):
        raise refused(faults)
    if manifest.to_bytes() != text:
        raise refused([FieldError("", "is not in its canonical form", "not_canonical")])
    return manifest


def check_files(manifest: BundleManifest, files: Mapping[str, bytes]) -> None:
    """Compare files with what the manifest says of them.

    Raises:
        InvalidBundle: one is missing, not listed, or another one.
    """
    faults = []
    for at, each in enumerate(manifest.files):
        content = files.get(each.path)
        if content is None:
            faults.append(FieldError(f"files[{at}]", f"{each.path!r} is missing", "missing"))
        elif len(content) != each.size or hashlib.sha256(content).hexdigest() != each.sha256:
            faults.append(FieldError(f"files[{at}]", f"{each.path!r} is not the listed file", "changed"))
    unlisted = sorted(files.keys() - {each.path for each in manifest.files})
    faults += [FieldError("files", f"{each!r} is not listed", "unlisted") for each in unlisted]
    if faults:
        raise refused(faults)


def _faults(manifest: BundleManifest, document: Any) -> Iterator[FieldError]:
    yield from json_faults(document)
    yield from _file_faults([each.path for each in manifest.files])
    paths = {each.path for each in manifest.files}
    for at, each in enumerate(manifest.requires):
        if each not in paths or not each.startswith(WHEELS) or not each.endswith("-none-any.whl"):
            problem = f"must be a listed file {WHEELS}….whl of pure Python (none-any)"
            yield FieldError(f"requires[{at}]", problem)
    for at, task in enumerate(manifest.tasks):
        if not {f"{SOURCES}{name}" for name in module_files(task.module)} & paths:
            yield FieldError(f"tasks[{at}].module", f"{task.module!r} has no file below {SOURCES}", "missing")
    yield from _doubled("tasks", manifest.task_ids)
    yield from _doubled("pipelines", [str(each.get("id", "")) for each in manifest.pipelines])
    if not manifest.tasks and not manifest.pipelines:
        yield FieldError("tasks", "a bundle has a task or a pipeline", "required")


def module_files(module: str) -> tuple[str, str]:
    """The files that a module may be, below a folder of sources."""
    path = module.replace(".", "/")
    return f"{path}.py", f"{path}/__init__.py"


def _file_faults(paths: list[str]) -> Iterator[FieldError]:
    for at, path in enumerate(paths):
        if (fault := name_fault(path)) is not None:
            yield FieldError(f"files[{at}].path", fault, "invalid_name")
        elif not path.startswith((SOURCES, WHEELS)):
            yield FieldError(f"files[{at}].path", f"must lie below {SOURCES} or {WHEELS}", "invalid_name")
    if paths != sorted(paths):
        yield FieldError("files", "must be in the order of their paths", "not_canonical")
    if (pair := clash(paths)) is not None:
        yield FieldError("files", f"{pair[0]!r} and {pair[1]!r} cannot both be files", "duplicate")


def _doubled(field: str, names: list[str]) -> Iterator[FieldError]:
    if len(set(names)) < len(names):
        double = next(each for each in names if names.count(each) > 1)
        yield FieldError(field, f"{double!r} is there twice", "duplicate")


def _fault(error: Any) -> FieldError:
    place = ""
    for part in error["loc"]:
        place += f"[{part}]" if isinstance(part, int) else f"{'.' if place else ''}{str(part)[:80]}"
    message = str(error["msg"]).removeprefix("Value error, ")
    return FieldError(place, message[:500], str(error["type"]))


def refused(faults: list[FieldError]) -> InvalidBundle:
    """The error for the mistakes of a manifest."""
    first = faults[0]
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    said = f"{first.field}: {first.message}" if first.field else f"the manifest {first.message}"
    return InvalidBundle(f"{said}{more}", errors=faults[:_MOST_ERRORS])
