"""The pipeline documents that commands are given."""

from __future__ import annotations

from pathlib import Path

from pipeweave.authoring import load_documents
from pipeweave.errors import InvalidSpec
from pipeweave.spec import PipelineSpec


def read_documents(file: Path) -> list[PipelineSpec]:
    """The pipelines of a YAML or JSON document that somebody named, so that there must be one.

    Raises:
        InvalidSpec: a document is wrong, or there is none.
    """
    found = load_documents(file)
    if not found:
        raise InvalidSpec(f"{file} holds no pipeline")
    return found
