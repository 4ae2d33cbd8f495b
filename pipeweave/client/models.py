"""Define the client's return values: Run, Page and Document."""

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
    """A run as the API described it at the time of the request; `document` is the whole answer."""

    id: str
    pipeline_id: str | None
    status: str
    document: Mapping[str, Any] = field(repr=False)

    @property
    def is_final(self) -> bool:
        return self.status in FINAL_STATUSES

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of task runs by status; empty for a run from a list."""
        return self.document.get("counts") or {}

    @property
    def output(self) -> Mapping[str, Any]:
        """The outputs of the completed end steps, by step id; large outputs are left out unless loaded."""
        return self.document.get("output") or {}


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list; `next_cursor` continues the list, None if no rows follow."""

    items: list[Document]
    next_cursor: str | None = None


def checked_id(text: str) -> str:
    """Quote an id for a URL path.

    Raises:
        InvalidInput: the id is empty.
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput("an id must not be empty", errors=[FieldError("id", "must be a text", "required")])
    return quote(text, safe="~:@")


def without_none(**given: Any) -> Document:
    """Build a request body from the fields that are not None."""
    return {name: value for name, value in given.items() if value is not None}


def document_of(answer: Any) -> Document:
    """Return the answer if it is a JSON object.

    Raises:
        PipeWeaveError: it is not an object.
    """
    if not isinstance(answer, dict):
        raise PipeWeaveError("the API's answer is not a JSON object")
    return answer


def run_of(answer: Any) -> Run:
    """Make a Run from the API's answer."""
    document = document_of(answer)
    return Run(document["id"], document.get("pipelineId"), document["status"], document)
