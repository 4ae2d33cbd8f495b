"""Read the pipeline documents that users pass to commands."""

from __future__ import annotations

from pathlib import Path

from pipeweave.authoring import load_documents
from pipeweave.errors import InvalidSpec
from pipeweave.spec import PipelineSpec


def read_documents(file: Path) -> list[PipelineSpec]:
    """Read the pipelines of a YAML or JSON file.

    Raises:
        InvalidSpec: a document is invalid, or the file holds no pipeline.
    """
    specs = load_documents(file)
    if not specs:
        raise InvalidSpec(f"{file} holds no pipeline")
    return specs
