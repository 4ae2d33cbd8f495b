"""Pipeline documents in files: YAML and JSON, one or several in a file, a file or a folder of them."""

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
    """The pipelines of a file, or of the YAML and JSON files of a folder (in order of their names).

    A file may hold several documents: YAML separated by `---`, JSON as a list. One that stands alone in its
    file may leave out its `id`, the file's name without suffix is taken.

    Raises:
        InvalidSpec: a file cannot be read, a document is wrong, or two pipelines have one id.
    """
    given = Path(path)
    if given.is_dir():
        files = sorted(each for each in given.iterdir() if each.suffix.lower() in SUFFIXES and each.is_file())
    else:
        files = [given]
    specs: dict[str, PipelineSpec] = {}
    for file in files:
        for spec in _load(file):
            if spec.id in specs:
                raise InvalidSpec(f"{file}: there is another pipeline {spec.id!r}")
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


def read_documents(file: Path) -> list[Any]:
    """The documents of a file as they are written.

    Raises:
        InvalidSpec: it cannot be read, or is no YAML or JSON.
    """
    if file.suffix.lower() not in SUFFIXES:
        raise InvalidSpec(f"{file}: a pipeline document ends in {', '.join(SUFFIXES)}")
    try:
        if file.stat().st_size > 4 * MAX_SPEC_BYTES:
            raise InvalidSpec(f"{file} is larger than {4 * MAX_SPEC_BYTES} bytes")
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSpec(f"{file} cannot be read: {error}") from None
    return _json(text, file) if file.suffix.lower() == ".json" else _yaml(text, file)


def _json(text: str, file: Path) -> list[Any]:
    try:
        loaded = json.loads(text, object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError) as error:
        raise InvalidSpec(f"{file} is not JSON: {error}") from None
    return loaded if isinstance(loaded, list) else [loaded]


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [key for key, _ in pairs]
        double = next(key for key in names if names.count(key) > 1)
        raise ValueError(f"the key {double!r} appears twice")
    return found


def _yaml(text: str, file: Path) -> list[Any]:
    import yaml

    class Loader(yaml.SafeLoader):
        """The safe loader, without keys that appear twice."""

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
            f"{file} is not YAML: {' '.join(str(error).split())[:500]}",
            errors=[FieldError("", "is not YAML", "malformed")],
        ) from None
