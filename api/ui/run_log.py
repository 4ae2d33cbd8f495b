"""The log of a whole run as its page shows it: what all attempts logged, by time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeweave.api.ui import logs
from pipeweave.api.ui.logs import LogLine
from pipeweave.api.ui.view import View
from pipeweave.errors import Unavailable
from pipeweave.orchestrator.domain import RunStatus, stored_lines

LINES_A_PAGE = "200"
ORDERS = ("newest", "oldest")


@dataclass(frozen=True, slots=True)
class MergedLine:
    """One line, and the attempt that logged it: a RunLogLine of the API."""

    by: Mapping[str, Any]
    line: LogLine


@dataclass(frozen=True, slots=True)
class MergedLog:
    """A page of the log of a run.

    Args:
        page: what the API answered beside the lines.
        unavailable: why nothing can be read.
    """

    lines: Sequence[MergedLine] = ()
    page: Mapping[str, Any] | None = None
    unavailable: str = ""


def of_run(view: View, run: Mapping[str, Any], step_id: str | None) -> MergedLog:
    """The part of the log of a run, or of one of its steps, that the address asks for."""
    query = {
        "limit": LINES_A_PAGE,
        "order": view.parameters.get("order") if view.parameters.get("order") in ORDERS else None,
        "level": view.parameters.get("level")
        if view.parameters.get("level") in stored_lines.LEVELS
        else None,
        "text": view.parameters.get("find", "")[:200] or None,
        "cursor": view.parameters.get("cursor"),
        "stepId": step_id,
    }
    # The logs of a run that goes on grow with each look: they are read every few seconds for all who look.
    is_over = RunStatus(run["status"]).is_final
    ask = view.ask if is_over or not view.is_fragment else view.ask_now_and_then
    try:
        page = ask("run_questions.run_logs", query, id=run["id"])
    except Unavailable as error:
        return MergedLog(unavailable=str(error.detail))
    return MergedLog([_merged(each) for each in page["logs"]], page)


def _merged(each: Mapping[str, Any]) -> MergedLine:
    line = {**each["line"], "time": each["time"]}
    return MergedLine(each, logs.shown_line(0, line))
