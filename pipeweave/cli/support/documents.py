"""Read the pipeline documents that users pass to commands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pipeweave.authoring import document_loading, load_documents
from pipeweave.errors import InvalidSpec
from pipeweave.spec import PipelineSpec, child_references


def read_documents(file: Path) -> list[PipelineSpec]:
    """Read the pipelines of a YAML or JSON file.

    Raises:
        InvalidSpec: a document is invalid, or the file holds no pipeline.
    """
    specs = load_documents(file)
    if not specs:
        raise InvalidSpec(f"{file} holds no pipeline")
    return specs


def callees_first(specs: Iterable[PipelineSpec]) -> Iterator[PipelineSpec]:
    """The pipelines in an order in which each comes after those that it runs; of some that run each other,
    the first one comes first.
    """
    left = {spec.id: spec for spec in specs}
    runs = {id: {each.pipeline.id for each in child_references(spec)} - {id} for id, spec in left.items()}
    while left:
        next_id = next((id for id in left if runs[id].isdisjoint(left)), next(iter(left)))
        yield left.pop(next_id)


def named_documents(file: Path) -> dict[str, dict[str, Any]]:
    """Read the documents of a YAML or JSON file by their ids, without checking them.

    A document without an id is named after the file, and its place if the file has several.

    Raises:
        InvalidSpec: the file cannot be read, or holds what is no object, or nothing.
    """
    documents = document_loading.read_documents(file)
    named: dict[str, dict[str, Any]] = {}
    for place, document in enumerate(documents, 1):
        if not isinstance(document, dict):
            raise InvalidSpec(f"{file}, document {place}: a pipeline is an object with `steps`")
        name = document.get("id") or (file.stem if len(documents) == 1 else f"{file.stem} {place}")
        named[str(name) if str(name) not in named else f"{name} {place}"] = document
    if not named:
        raise InvalidSpec(f"{file} holds no pipeline")
    return named
