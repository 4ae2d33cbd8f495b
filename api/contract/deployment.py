"""Models of the settings and of the checkup of a deployment."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pipeweave.api.contract.answers import AnswerModel
from pipeweave.api.contract.requests import Request


class SettingAnswer(AnswerModel):
    """One setting of the API process."""

    name: str
    value: str | None = Field(description="Secrets are masked; null: not set.")
    source: str = Field(
        description="The environment variable; `default`; `program`: the code that embeds it."
    )
    about: str


class ConfigAnswer(AnswerModel):
    """The effective settings of the API process that answers."""

    settings: list[SettingAnswer]


class DoctorRequest(Request):
    """Check the deployment."""


class CheckAnswer(AnswerModel):
    """What one check found."""

    name: str
    level: Literal["ok", "warning", "error"]
    detail: str
    hint: str | None


class DoctorAnswer(AnswerModel):
    """What all checks found."""

    status: Literal["ok", "warning", "error"] = Field(description="The worst of all.")
    is_complete: bool = Field(description="False: the time was up before the last check.")
    checks: list[CheckAnswer]
