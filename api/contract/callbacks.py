"""What who reports the result of a suspended call is told."""

from __future__ import annotations

from pydantic import Field

from pipeweave.orchestrator.documents.base import AnswerModel


class CallbackTaken(AnswerModel):
    """A report is stored."""

    is_repeated: bool = Field(description="The same report had come before; nothing was changed.")
