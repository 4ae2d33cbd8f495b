"""Print what a schedule or a trigger started, and what it did not start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeweave.cli.support.rendering import Cells, field, moment, show_list, when
from pipeweave.cli.support.tables import Column


def show_fires(
    fires: Sequence[Mapping[str, Any]],
    time: str,
    *,
    before_outcome: Cells | None = None,
    after_outcome: Cells | None = None,
) -> None:
    """Print fires as a table.

    Args:
        fires: as the API lists them.
        time: the member that says when they were due, or when they fired.
        before_outcome, after_outcome: further columns.
    """
    cells: dict[Any, Any] = {
        moment("time (UTC)"): lambda each: when(each[time]),
        **(before_outcome or {}),
        Column("outcome"): field("outcome"),
        **(after_outcome or {}),
        Column("run"): field("runId"),
        Column("why", wraps=True): lambda each: (each["error"] or {}).get("message") or each["reason"],
    }
    show_list("fires", fires, cells, as_json=False)
