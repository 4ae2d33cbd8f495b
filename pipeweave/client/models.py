"""What the client gives: a run, a page of a list, and the API's documents as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from pipeweave.errors import FieldError, InvalidInput, PipeWeaveError

FINAL_STATUSES = frozenset({"completed", "partial", "failed", "cancelled"})

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Run:
    """A run as the API described it when it was asked; `document` is the whole answer."""

    id: str
    pipeline_id: str | None
    status: str
    document: Mapping[str, Any] = field(repr=False)

    @property
    def is_final(self) -> bool:
        return self.status in FINAL_STATUSES

    @property
    def counts(self) -> Mapping[str, int]:
        """Task runs by status; empty in a list."""
        return self.document.get("counts") or {}

    @property
    def output(self) -> Mapping[str, Any]:
        """The outputs of the end steps that completed, by step id; those too large to show are left out."""
        return self.document.get("output") or {}


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows of a list and, where more follow, the cursor that continues it."""

    items: list[Document]
    next_cursor: str | None = None


def checked_id(text: str) -> str:
    """An id as it goes into a path.

    Raises:
        InvalidInput: it is empty.
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput("an id must not be empty", errors=[FieldError("id", "must be a text", "required")])
    return quote(text, safe="~:@")


def without_none(**given: Any) -> Document:
    """A body without the fields that were not given."""
    return {name: value for name, value in given.items() if value is not None}


def document_of(answer: Any) -> Document:
    """The answer, which must be an object."""
    if not isinstance(answer, dict):
        raise PipeWeaveError("the API answered something else than an object")
    return answer


def run_of(answer: Any) -> Run:
    """A run from its document."""
    document = document_of(answer)
    return Run(document["id"], document.get("pipelineId"), document["status"], document)
