"""The adapter `log`: writes a line to the log of its step."""

from __future__ import annotations

import logging
from typing import Any, Literal

from pipeweave.authoring import Context
from pipeweave.authoring.adapter import action, adapter

Level = Literal["debug", "info", "warning", "error"]
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


@adapter("log")
class LogAdapter:
    """The log of the run: `pipeweave logs`, and the page of the run."""

    @action
    def write(
        self, ctx: Context, message: str, level: Level = "info", fields: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Write one line; the output is {message, level, fields}.

        Args:
            fields: further members of the line.
        """
        ctx.log.log(_LEVELS[level], "%s", message, extra=fields or {})
        return {"message": message, "level": level, "fields": fields or {}}
