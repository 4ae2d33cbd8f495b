"""The screen of a run: its header and verbs, one tab, and the step that is selected.

It opens on the right thing: a run that failed on the step that failed, one that runs on what runs, one that
waits on what waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeweave.api.ui import run_changes, run_tabs, run_times, run_verbs
from pipeweave.api.ui.run_step import Selected, selected
from pipeweave.api.ui.screens import Redirect, ScreenPage, Screens
from pipeweave.api.ui.view import View
from pipeweave.api.ui.words import is_engine
from pipeweave.errors import LimitExceeded, NotFound
from pipeweave.orchestrator.domain import RunStatus
from pipeweave.spec.kinds import WAIT, WITH_ITEMS

screens = Screens("runs")

# Tab -> its title. The first is shown where the address names none.
TITLES = {
    "steps": "Steps",
    "log": "Log",
    "events": "Events",
    "data": "Data",
    "attempts": "Attempts",
    "why": "Why",
}
# The forms in which the steps are shown, beside the one that is selected; in addresses they are tabs, too.
FORMS = {"steps": "List", "timeline": "Timeline", "graph": "Graph"}
# The order in which a step is worth looking at.
_WORTH = ("failed", "timeout", "running", "waiting", "queued", "ready", "pending")
# What is left of a run below so much is told in steps of so much (ms).
_ROUNDED = ((10_000, 1_000), (60_000, 5_000), (600_000, 10_000), (float("inf"), 60_000))
# No event tells of progress.
PROGRESS_S = 2.0


@screens.add("/runs/<id>", "run.html", every_s=PROGRESS_S)
def run(view: View, id: str) -> ScreenPage | Redirect:
    """One run."""
    document = view.ask("runs.get_run", {"taskRuns": "0"}, id=id)
    tabs = tabs_of(document)
    tab = view.parameters.get("tab", "")
    tab = tab if tab in FORMS or tab in dict(tabs) else "steps"
    is_beside = tab in FORMS
    if is_beside and (asked := _step_that_asks(view, document)):
        # What a person may decide is in the address: the page that looks again is the same for all.
        return Redirect(view.here(step=asked, done=view.parameters.get("done")))
    step = view.parameters.get("step") or (first_step(document) if is_beside else "")
    chosen = selected(view, document, step)
    shown = {
        "run": document,
        "is_open": is_open(document),
        "tabs": tabs,
        "tab": tab,
        "forms": FORMS,
        "is_beside": is_beside,
        "selected": chosen,
        **_newest(view, document),
        **run_changes.around(view, document),
        "failures": _failures(document, step),
        "handled": _handled(document),
        "left": _left(view, document),
        "waits": waits(document),
        "retries_these": retries_these(view, document, chosen),
        "verified": _verified(view, id),
        "verbs_offered": run_verbs.offered(view, document),
        **_tab(view, document, tab, chosen),
    }
    done = sum(each["done"] for each in document["steps"])
    total = sum(each["total"] for each in document["steps"])
    percent = f" {100 * done // total} %" if is_open(document) and total else ""
    title = f"{document['pipelineId']}{percent}"
    return ScreenPage(title, shown, document["status"], id)


def _step_that_asks(view: View, run: Mapping[str, Any]) -> str | None:
    """The step whose approval the person may decide, where the address names none yet."""
    waiting = any(each["kind"] == WAIT and each["status"] == "waiting" for each in run["steps"])
    if view.is_fragment or "step" in view.parameters or not waiting or not view.may("waits.approve"):
        return None
    query = {"runId": run["id"], "assignee": "me", "limit": "1"}
    mine = view.ask("waits.list_waits", query)["waits"]
    return str(mine[0]["stepId"]) if mine else None


def is_open(run: Mapping[str, Any]) -> bool:
    """Whether the run goes on."""
    return not RunStatus(run["status"]).is_final


def waits(run: Mapping[str, Any]) -> bool:
    """Whether something of the run waits for more than for its own steps and items to end."""
    if not is_open(run):
        return False
    counts = run["counts"]
    maps = sum(each["status"] == "waiting" and each["kind"] in WITH_ITEMS for each in run["steps"])
    held = sum(counts.get(each, 0) for each in ("queued", "ready", "waiting")) - maps
    is_due = any(each["dueAt"] for each in run["steps"])
    return bool(run["pausedAt"]) or held > 0 or is_due or not counts.get("running")


def tabs_of(run: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The tabs of a run; what it waits for is one only while it waits."""
    return [(name, title) for name, title in TITLES.items() if name != "why" or is_open(run)]


def first_step(run: Mapping[str, Any]) -> str:
    """The step to look at first: of one that ended well, none."""
    candidates = [each for each in run["steps"] if each["status"] in _WORTH or each["failed"]]
    worth = min(candidates, key=_worth, default=None)
    return "" if worth is None else str(worth["id"])


def _worth(step: Mapping[str, Any]) -> int:
    return 0 if step["failed"] else _WORTH.index(step["status"])


def retries_these(view: View, run: Mapping[str, Any], chosen: Selected | None) -> bool:
    """Whether a redrive of the failed items of the selected map is offered: it takes dead letters by task, so
    only where no other step of that task failed.
    """
    step = None if chosen is None or chosen.index is not None else chosen.step
    if step is None or step["kind"] not in WITH_ITEMS or not step["failed"] or run["ending"] is not None:
        return False
    if is_engine(step["taskId"]):
        return False
    of_task = [each for each in run["steps"] if each["failed"] and each["taskId"] == step["taskId"]]
    return len(of_task) == 1 and view.may("dead_letters.retry_all")


def _newest(view: View, run: Mapping[str, Any]) -> dict[str, Any]:
    """The newest version of the pipeline, and how many of its steps differ from this run's."""
    id, own = run["pipelineId"], run["pipelineVersion"]
    try:
        versions = view.ask("pipelines.list_versions", {"limit": "1"}, id=id)["versions"]
    except NotFound:
        versions = []
    newest = int(versions[0]["version"]) if versions else own
    return {"newest": newest, "newest_differs": run_changes.steps_between(view, id, own, newest)}


def _left(view: View, run: Mapping[str, Any]) -> dict[str, Any] | None:
    """When an open run will probably end: {ms, runs, isFew, isMore}; in steps, so that it seldom changes."""
    # What waits for people or for another time, and what follows the last step, is not in the forecast.
    is_still = run["phase"] == RunStatus.PAUSED or run["ending"] is not None
    if not is_open(run) or run["startedAt"] is None or is_still:
        return None
    forecast = view.ask("run_questions.forecast", id=run["id"])
    if forecast["leftMs"] is None:
        return None
    size = next(each for below, each in _ROUNDED if forecast["leftMs"] < below)
    ms = round(forecast["leftMs"] / size) * size
    return {
        "ms": ms,
        "runs": forecast["runs"],
        "isFew": forecast["tooFewRuns"],
        "isMore": forecast["unknownSteps"] > 0,
    }


def _failures(run: Mapping[str, Any], step: str) -> dict[str, Any]:
    """The steps that failed: {count, place, before, after}; place is that of the selected one, 0 of none."""
    failed = [each["id"] for each in run["steps"] if each["failed"]]
    if not failed or step not in failed:
        return {"count": len(failed), "place": 0, "before": None, "after": failed[0] if failed else None}
    at = failed.index(step)
    after = failed[(at + 1) % len(failed)]
    return {"count": len(failed), "place": at + 1, "before": failed[at - 1], "after": after}


def _handled(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The steps of whose errors other runs take care now."""
    return [each for each in run["steps"] if each["status"] == "waiting" and each["errorCode"]]


def _verified(view: View, id: str) -> dict[str, Any] | None:
    """The answer of the verification, if the address asks for one."""
    if view.parameters.get("verify") != "1":
        return None
    try:
        verification: dict[str, Any] = view.ask("run_questions.verify", id=id)
    except LimitExceeded as error:
        return {"refused": error.detail, "hint": error.hint}
    return verification


def _tab(view: View, run: Mapping[str, Any], tab: str, chosen: Selected | None) -> dict[str, Any]:
    readers: Mapping[str, Any] = {
        "timeline": _timeline,
        "steps": run_tabs.steps,
        "events": run_tabs.events,
        "data": run_tabs.data,
        "log": run_tabs.log,
        "attempts": run_tabs.attempts,
        "why": run_tabs.why,
    }
    reader = readers.get(tab)
    content: dict[str, Any] = reader(view, run, chosen) if reader else {}
    return content


def _timeline(view: View, run: Mapping[str, Any], chosen: Selected | None) -> dict[str, Any]:
    return run_times.timeline_of(view, run["id"])
