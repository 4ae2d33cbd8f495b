"""Load pipeline documents from a YAML or JSON file, or from all such files of a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeweave.errors import FieldError, InvalidSpec
from pipeweave.size_limits import MAX_SPEC_BYTES
from pipeweave.spec import PipelineSpec, parse_spec

SUFFIXES = (".yaml", ".yml", ".json")


def load_documents(path: str | Path) -> list[PipelineSpec]:
    """Load the pipelines of a file, or of the YAML and JSON files of a folder (sorted by name).

    A file may hold several documents: YAML separated by `---`, JSON as a list. A document that is the only
    document of its file may leave out its `id`: its id is then the file's name without suffix.

    Raises:
        InvalidSpec: a file cannot be read, a document is invalid, or two pipelines have the same id.
    """
    source = Path(path)
    if source.is_dir():
        files = sorted(
            each for each in source.iterdir() if each.suffix.lower() in SUFFIXES and each.is_file()
        )
    else:
        files = [source]
    specs: dict[str, PipelineSpec] = {}
    for file in files:
        for spec in _load(file):
            if spec.id in specs:
                raise InvalidSpec(f"{file}: another document has the id {spec.id!r}, too")
            specs[spec.id] = spec
    return list(specs.values())


def _load(file: Path) -> Iterator[PipelineSpec]:
    documents = list(read_documents(file))
    for number, document in enumerate(documents, start=1):
        where = str(file) if len(documents) == 1 else f"{file}, document {number}"
        alone = len(documents) == 1 and isinstance(document, dict) and document.get("id") is None
        try:
            yield parse_spec(document, id=file.stem if alone else None)
        except InvalidSpec as error:
            raise InvalidSpec(
                f"{where}: {error.detail}", errors=error.errors, hint=error.hint, **error.context
            ) from None


def _problem(error: Exception) -> str:
    """What the YAML parser found, in one line: `line 4, column 4: expected …`."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None or problem is None:
        return " ".join(str(error).split())[:500]
    said = f"line {mark.line + 1}, column {mark.column + 1}: {' '.join(problem.split())[:400]}"
    # To YAML a value that begins with * is an alias; here it is a cron line, most of the time.
    is_alias = getattr(error, "context", None) == "while scanning an alias"
    return f"{said}; quote a text that begins with *, such as '*/5 * * * *'" if is_alias else said


def read_documents(file: Path) -> list[Any]:
    """Read the documents of a file without checking them.

    Raises:
        InvalidSpec: the file cannot be read, or is not YAML or JSON.
    """
    if file.suffix.lower() not in SUFFIXES:
        raise InvalidSpec(f"{file}: the name of a pipeline document must end in {', '.join(SUFFIXES)}")
    try:
        if file.stat().st_size > 4 * MAX_SPEC_BYTES:
            raise InvalidSpec(f"{file} is larger than {4 * MAX_SPEC_BYTES} bytes")
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSpec(f"{file} cannot be read: {error}") from None
    return _json(text, file) if file.suffix.lower() == ".json" else _yaml(text, file)


def _json(text: str, file: Path) -> list[Any]:
    try:
        loaded = json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise InvalidSpec(f"{file} is not JSON: {error}") from None
    return loaded if isinstance(loaded, list) else [loaded]


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [key for key, _ in pairs]
        double = next(key for key in names if names.count(key) > 1)
        raise ValueError(f"the key {double!r} appears twice")
    return members


def _yaml(text: str, file: Path) -> list[Any]:
    import yaml

    class Loader(yaml.SafeLoader):
        """YAML's safe loader, which also refuses duplicate keys."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen: set[Any] = set()
            for key_node, _ in node.value:
                key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
                if key is not None and key in seen and key != "<<":
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key!r} appears twice", key_node.start_mark
                    )
                seen.add(key)
            return super().construct_mapping(node, deep)

    try:
        return [each for each in yaml.load_all(text, Loader=Loader) if each is not None]
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InvalidSpec(
            f"{file} is not YAML: {_problem(error)}",
            errors=[FieldError("", "is not YAML", "malformed")],
        ) from None
