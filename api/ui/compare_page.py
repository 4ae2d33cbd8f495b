"""The screen that puts two runs of a pipeline beside each other."""

from __future__ import annotations

from pipeweave.api.ui.screens import Redirect, ScreenPage, Screens
from pipeweave.api.ui.view import View
from pipeweave.errors import InvalidInput

screens = Screens("runs")

STEPS_A_PAGE = 200
# Runs that are offered beside one that cannot be compared with what was chosen.
OTHERS = 5


@screens.add("/compare/<left>/<right>", "compare.html")
def compare(view: View, left: str, right: str) -> ScreenPage:
    """Two runs."""
    wanted = view.parameters.get("limit", "")
    limit = wanted if wanted.isascii() and wanted.isdigit() else str(STEPS_A_PAGE)
    try:
        comparison = view.ask("run_questions.compare", {"limit": limit}, id=left, other=right)
    except InvalidInput as error:
        if not any(each.field == "other" for each in error.errors):
            raise
        return _apart(view, left, right)
    took = [
        each[side]["durationMs"] or 0
        for each in comparison["steps"]
        for side in ("left", "right")
        if each[side]
    ]
    shown = {
        "apart": (),
        "found": comparison,
        "longest": max(took, default=0) or 1,
        "all_steps": sum_of(comparison["counts"]),
    }
    return ScreenPage(f"Compare {comparison['left']['pipelineId']}", shown)


def _apart(view: View, left: str, right: str) -> ScreenPage:
    """Two runs of different pipelines, each with the runs that it can be compared with."""
    sides = []
    for name, id in (("Left", left), ("Right", right)):
        run = view.ask("runs.get_run", {"taskRuns": "0"}, id=id)
        query = {"pipelineId": run["pipelineId"], "limit": str(OTHERS + 1)}
        others = view.ask("runs.list_runs", query)["runs"]
        sides.append((name, run, [each for each in others if each["id"] != run["id"]][:OTHERS]))
    return ScreenPage("Compare", {"apart": sides})


def sum_of(counts: dict[str, int]) -> int:
    """How many steps the two runs have together."""
    return counts["both"] + counts["onlyLeft"] + counts["onlyRight"]


@screens.add("/compare", "compare.html")
def chosen(view: View) -> Redirect:
    """Two runs that were chosen in a list: `run=…&run=…`, the older one on the left."""
    runs = sorted(view.lists.get("run", ()))[:2]
    return Redirect(view.url(f"/compare/{runs[0]}/{runs[1]}" if len(runs) == 2 else "/runs"))
